"""What the levels of a campaign's tests bound, and what people are told of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from db.models import Campaign, Experiment
from db.states import VerdictOutcome
from knowledge.queries.campaigns import campaign_detail
from knowledge.queries.claims.discovery import (
    DispatchedTest,
    discovery_sentence,
    discovery_view,
    outside_sentence,
    tallied_view,
    tallies_of,
)
from knowledge.queries.claims.discovery import (
    tests_of as dispatched_tests_of,
)
from knowledge.queries.facts import campaign_facts
from knowledge.telling.summary import summarize
from tests.history.campaign_history import History
from tests.history.large_history import large_history
from tests.history.large_story import Size

ALPHA = 0.05


def timed(number: int, level: float | None, *, supported: bool) -> DispatchedTest:
    return DispatchedTest(number, "tpot_ms", ALPHA, level, supported)


def test_the_bound_is_alpha_times_the_supported_or_what_was_spent_whichever_is_less() -> None:
    many = [timed(n, 0.02, supported=n < 4) for n in range(30)]
    found = discovery_view(many, ALPHA)
    assert (found.tests, found.supported) == (30, 4)
    assert found.expected_false == pytest.approx(4 * ALPHA)
    few = discovery_view([timed(1, 0.001, supported=True)], ALPHA)
    assert few.expected_false == few.spent_alpha == 0.001


def test_people_are_told_a_bound_that_is_rounded_up_and_what_it_is_of() -> None:
    found = discovery_view([timed(n, 0.2, supported=n < 4) for n in range(10)], ALPHA)
    assert str(discovery_sentence(found)).startswith(
        "at most 0.2 of the 4 supported on time are expected to be false in their time (online control at "
        "5 %, of the time alone)"
    )
    one = discovery_view([timed(1, 0.0218744, supported=True)], ALPHA)
    told = str(discovery_sentence(one))
    assert told.startswith("at most 0.022 of the 1 supported on time is expected to be false in its time")
    assert told.endswith("; no quality was checked, on average over campaigns like this")


def test_every_guard_that_was_asked_may_have_let_one_pass_that_is_worse() -> None:
    """20 lossy candidates at 5 % each: one is expected to pass, and then it is the only one supported."""
    lossy = [replace(timed(n, 0.02, supported=n == 0), guarded=True) for n in range(20)]
    unguarded = [timed(n, 0.02, supported=False) for n in range(20, 30)]
    found = discovery_view([*lossy, *unguarded], ALPHA)
    assert (found.quality.checked, found.quality.expected_false) == (20, 1)
    assert "and 1 in its quality (20 checked at 5 % each), on average" in str(discovery_sentence(found))
    many = discovery_view([replace(each, supported=True) for each in lossy[:4]], ALPHA)
    assert many.quality.expected_false == pytest.approx(4 * ALPHA)
    assert "and 0.2 in their quality (4 checked at 5 % each)" in str(discovery_sentence(many))


def test_without_anything_supported_nothing_is_said() -> None:
    found = discovery_view([replace(timed(1, 0.02, supported=False), guarded=True)], ALPHA)
    assert discovery_sentence(found) is None
    assert outside_sentence(found) is None
    assert found.quality.expected_false == discovery_view([], ALPHA).expected_false == 0


def test_claims_on_quality_are_told_apart_each_at_its_own_level_and_bytes_by_their_guard() -> None:
    tested = [
        timed(1, 0.02, supported=True),
        DispatchedTest(2, "nll_bits", ALPHA, None, supported=True, guarded=True),
        DispatchedTest(3, "task_correct", ALPHA, None, supported=False, guarded=True),
        DispatchedTest(4, "step_weight_bytes", ALPHA, None, supported=True, guarded=True),
    ]
    found = discovery_view(tested, ALPHA)
    assert (found.tests, found.supported) == (1, 1)
    assert (found.outside.tests, found.outside.supported) == (3, 2)
    assert found.outside.expected_false == pytest.approx(2 * ALPHA / 4)
    assert found.outside.quality.checked == 3
    assert found.outside.quality.expected_false == pytest.approx(3 * ALPHA)
    assert outside_sentence(found) == (
        "2 other claims are supported outside this control, each at a level of its own: at most 0.025 of "
        "them expected to be false in their claim (3 tested) and 0.15 in their quality (3 checked at 5 % "
        "each), on average over campaigns like this if chosen without regard to earlier scores"
    )


def test_a_claim_on_bytes_alone_is_not_told_as_faultless() -> None:
    found = discovery_view([DispatchedTest(1, "step_weight_bytes", ALPHA, None, True, True)], ALPHA)
    assert (found.outside.expected_false, found.outside.quality.expected_false) == (0, ALPHA)
    assert str(outside_sentence(found)).startswith("at most 0 of the 1 supported is expected")
    assert "and 0.05 in its quality (1 checked at 5 %)" in str(outside_sentence(found))


def test_where_nothing_is_supported_on_time_the_others_are_no_other_claims_than_those() -> None:
    outside = DispatchedTest(2, "nll_bits", ALPHA, None, supported=True, guarded=True)
    found = discovery_view([timed(1, 0.02, supported=False), outside], ALPHA)
    assert discovery_sentence(found) is None
    assert str(outside_sentence(found)).startswith("at most 0.013 of the 1 supported is expected")


def test_tests_from_before_there_was_a_control_count_at_their_own_level() -> None:
    found = discovery_view([timed(1, None, supported=True)], ALPHA)
    assert (found.tests, found.outside.tests, found.outside.expected_false) == (0, 1, ALPHA)
    assert "without online control" in str(outside_sentence(found))


def test_the_database_gives_the_same(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    history.judge(history.propose({"serving.dtype": "bfloat16"}), VerdictOutcome.REFUTED)
    untold = history.propose({"serving.threads": 1, "serving.dtype": "bfloat16"})
    history.judge(untold, VerdictOutcome.REFUTED, quality="not measured")
    with history.database.read() as session:
        found = campaign_detail(session, history.campaign_id).discovery
        assert found is not None
        assert (found.outside.tests, found.outside.supported) == (3, 1)
        assert found.outside.quality.checked == 2
        assert campaign_facts(session, history.campaign_id).discovery == found


def test_a_confounded_test_is_neither_ruled_out_nor_open_nor_a_surprise_and_makes_no_finding(
    history: History,
) -> None:
    hypothesis = history.propose({"serving.threads": 1}, claim="One thread is faster.")
    history.judge(hypothesis, VerdictOutcome.CONFOUNDED, effect=(0.5, 0.4, 0.6), reason="Another kernel ran.")
    with history.database.read() as session:
        found = summarize(campaign_facts(session, history.campaign_id))
    assert found.confounded.lines == ("H-001  One thread is faster: Another kernel ran",)
    assert found.ruled_out.lines == found.inconclusive.lines == found.surprised.lines == ()


def test_what_the_database_counts_bounds_the_same_as_each_test_for_itself(tmp_path: Path) -> None:
    database = large_history(tmp_path, Size(experiments=60, events=200))
    with database.write() as session:
        campaign_id = session.scalars(select(Campaign.id)).one()
        for experiment in session.scalars(select(Experiment).where(Experiment.id > 1)):
            if experiment.id % 3 == 0:
                metric = ("nll_bits", "step_weight_bytes", "ttft_ms")[experiment.id % 9 // 3]
                plan = {**experiment.plan, "metric": metric, "alpha": 0.1}
                experiment.plan = {name: value for name, value in plan.items() if name != "support_alpha"}
    with database.read() as session:
        each = discovery_view(dispatched_tests_of(session, [campaign_id])[campaign_id], ALPHA)
        counted = tallied_view(tallies_of(session, [campaign_id])[campaign_id], ALPHA)
        assert tallies_of(session, [7]) == {7: ()}
    database.close()
    assert min(each.supported, each.outside.supported, each.outside.quality.checked) > 0
    assert counted.model_dump(exclude={"spent_alpha", "quality", "outside"}) == pytest.approx(
        each.model_dump(exclude={"spent_alpha", "quality", "outside"})
    )
    assert counted.spent_alpha == pytest.approx(each.spent_alpha)
    assert counted.quality.model_dump() == pytest.approx(each.quality.model_dump())
    for name in ("tests", "supported", "expected_false"):
        assert getattr(counted.outside, name) == pytest.approx(getattr(each.outside, name))
    assert counted.outside.quality.model_dump() == pytest.approx(each.outside.quality.model_dump())

"""What the levels of a campaign's tests bound, and what people are told of it."""

from __future__ import annotations

import pytest

from db.states import VerdictOutcome
from knowledge.queries.campaigns import campaign_detail
from knowledge.queries.discovery import DispatchedTest, discovery_sentence, discovery_view, outside_sentence
from knowledge.queries.facts import campaign_facts
from knowledge.summary import summarize
from tests.history.campaign_history import History

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


def test_people_are_told_a_bound_that_is_rounded_up() -> None:
    found = discovery_view([timed(n, 0.2, supported=n < 4) for n in range(10)], ALPHA)
    assert discovery_sentence(found) == (
        "at most 0.2 of the 4 supported are expected to be false (online control at 5 %)"
    )
    one = discovery_view([timed(1, 0.0218744, supported=True)], ALPHA)
    assert discovery_sentence(one) == (
        "at most 0.022 of the 1 supported is expected to be false (online control at 5 %)"
    )


def test_without_anything_supported_nothing_is_said() -> None:
    found = discovery_view([timed(1, 0.02, supported=False)], ALPHA)
    assert discovery_sentence(found) is None
    assert outside_sentence(found) is None
    assert discovery_view([], ALPHA).expected_false == 0


def test_claims_on_quality_are_told_apart_each_at_its_own_level_and_bytes_have_no_error() -> None:
    tested = [
        timed(1, 0.02, supported=True),
        DispatchedTest(2, "nll_bits", ALPHA, None, supported=True),
        DispatchedTest(3, "task_correct", ALPHA, None, supported=False),
        DispatchedTest(4, "step_weight_bytes", ALPHA, None, supported=True),
    ]
    found = discovery_view(tested, ALPHA)
    assert (found.tests, found.supported) == (1, 1)
    assert (found.outside.tests, found.outside.supported) == (2, 1)
    assert found.outside.expected_false == pytest.approx(2 * ALPHA / 4)
    assert "of the 1 supported on time is expected" in str(discovery_sentence(found))
    assert str(outside_sentence(found)).startswith("1 other claim is supported outside this control")


def test_tests_from_before_there_was_a_control_count_at_their_own_level() -> None:
    found = discovery_view([timed(1, None, supported=True)], ALPHA)
    assert (found.tests, found.outside.tests, found.outside.expected_false) == (0, 1, ALPHA)
    assert "without online control" in str(outside_sentence(found))


def test_the_database_gives_the_same(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    history.judge(history.propose({"serving.dtype": "bfloat16"}), VerdictOutcome.REFUTED)
    with history.database.read() as session:
        found = campaign_detail(session, history.campaign_id).discovery
        assert found is not None
        assert (found.outside.tests, found.outside.supported) == (2, 1)
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

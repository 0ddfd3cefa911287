"""A test that would be confounded as another was: it is not run, and its claim is made anew at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.known.reading_facts import read_facts
from agent.campaign.separation.foreseen import Confounder, foresee
from agent.judge.confounding import Difference
from db import events
from db.event_kinds import EventKind
from db.models import Experiment, Hypothesis, Verdict
from db.session import Database
from db.states import HypothesisState, VerdictOutcome
from experiments.measurement.judging import Outcome
from knowledge.acts import steering
from knowledge.queries.answered.answers import campaign_answers
from knowledge.queries.claims.follow_ups import follow_ups_of
from knowledge.queries.facts import campaign_facts
from knowledge.telling.answers import answers_markdown
from knowledge.telling.summary import summarize
from tests.recorded.vllm_kernels import SPACE
from tests.simulated.by_hand import measure_baseline
from tests.simulated.campaign import drive, start
from tests.simulated.recorded_kernels import (
    GROUP,
    KERNEL,
    SIMULATED,
    does_not_run,
    next_one,
    propose,
    ranked,
    run_recorded,
)

CORPUS = "quantization.corpus"
WITH_CORPUS = f"""{SPACE}
  - name: {CORPUS}
    lever: quantization
    values: [raw, instruct]
    default: raw
    when: {{quantization.method: [awq]}}
    help: What calibrates.
"""


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[tuple[Database, int]]:
    """A campaign in which groups of 32 against 128 were confounded by their kernels."""
    database, campaign_id = start(tmp_path, space_text=WITH_CORPUS, **{"baseline.sweep": []})
    measure_baseline(database, campaign_id)
    with database.write() as session:
        trap = propose(session, campaign_id, {GROUP: 32}, {GROUP: 128})
    assert run_recorded(database, campaign_id, trap, "w4-g32", "w4-g128") is Outcome.CONFOUNDED
    yield database, campaign_id
    database.close()


def test_the_same_arms_are_not_run_as_they_are_once_more_but_with_one_kernel_in_both(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        asked = propose(session, campaign_id, {GROUP: 128}, {GROUP: 32}, metric="nll_bits")
    anew = next_one(database, campaign_id, asked)
    assert anew is not None
    with database.read() as session:
        row = session.get_one(Hypothesis, asked)
        assert (row.state, row.rank) == (HypothesisState.CONFOUNDED, None)
        assert row.state_reason == (
            "Not tested as it was asked, for what confounded E-0002 would confound it too: linear_kernel is "
            "MacheteLinearKernel in the control, MarlinLinearKernel in the candidate. H-005 makes the claim "
            "anew, with serving.linear_kernel at machete in both arms."
        )
        assert not session.scalars(select(Experiment).where(Experiment.hypothesis_id == asked)).all()
        told = events.read(session, kinds=[EventKind.HYPOTHESIS_CONFOUNDED])
        assert [(each.subject, each.text, each.data) for each in told] == [
            ("H-004", row.state_reason, {"as": "E-0002", "anew": "H-005"})
        ]
        stands = session.get_one(Hypothesis, anew)
        assert stands.metric == "nll_bits"
        assert stands.refuted_if != session.get_one(Hypothesis, 2).refuted_if, "it is about bits"
        facts = read_facts(session, campaign_id)
        queued = next(each for each in facts.queue if each.id == anew)
        assert {each[KERNEL] for each in (queued.control, queued.candidate)} == {"machete"}
        assert (queued.control[GROUP], queued.candidate[GROUP]) == (128, 32)
        assert (queued.stands_for, queued.foreseen) == (asked, True)
        assert [each.id for each in follow_ups_of(session, row)] == [anew]
        first = session.get_one(Hypothesis, 1)
        assert [each.id for each in follow_ups_of(session, first)] == [2, 3], "not what stands for another"
        confounded = summarize(campaign_facts(session, campaign_id)).confounded
        assert confounded.lines[0].endswith("H-002 and H-003 separate the causes")
        assert confounded.sentence == (
            "1 test is confounded, which says nothing about the claim. 1 more would have been and was not "
            "tested as asked: H-005 asks it with what differed alike in both arms."
        )
    reasons = {each.id: str(each.reason) for each in ranked(database, campaign_id)}
    assert "makes the claim of H-004 anew, by what E-0002 told" in reasons["H-005"]


def test_another_calibration_text_runs_the_same(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        asked = propose(session, campaign_id, {GROUP: 128, CORPUS: "instruct"}, {GROUP: 32, CORPUS: "raw"})
    assert next_one(database, campaign_id, asked) is not None


def test_what_has_its_kernels_alike_or_claims_them_or_compares_other_arms_is_tested_as_asked(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    both = ({GROUP: 32, KERNEL: "marlin"}, {GROUP: 128, KERNEL: "marlin"})
    claimed = ({GROUP: 128, KERNEL: "machete"}, {GROUP: 128, KERNEL: "marlin"})
    texts = ({GROUP: 128, CORPUS: "raw"}, {GROUP: 128, CORPUS: "instruct"})
    with database.write() as session:
        asked = [propose(session, campaign_id, *arms, metric="nll_bits") for arms in (both, claimed, texts)]
    assert [next_one(database, campaign_id, each) for each in asked] == [None] * len(asked)
    with database.read() as session:
        states = {session.get_one(Hypothesis, each).state for each in asked}
        assert states == {HypothesisState.QUEUED}


def test_nothing_is_foreseen_before_a_test_was_confounded(tmp_path: Path) -> None:
    database, campaign_id = start(tmp_path, space_text=SPACE, **{"baseline.sweep": []})
    measure_baseline(database, campaign_id)
    with database.write() as session:
        asked = propose(session, campaign_id, {GROUP: 32}, {GROUP: 128})
    assert next_one(database, campaign_id, asked) is None
    database.close()


def test_what_no_knob_takes_apart_is_tested_as_asked(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign
    arms = ({GROUP: 32, KERNEL: "marlin"}, {GROUP: 128, KERNEL: "marlin"})
    with database.write() as session:
        pinned = session.scalars(
            select(Hypothesis.id).where(Hypothesis.state == HypothesisState.QUEUED).order_by(Hypothesis.id)
        ).first()
    assert pinned is not None
    assert run_recorded(database, campaign_id, pinned, "w4-g32", "w4-g128") is Outcome.CONFOUNDED
    with database.write() as session:
        again = propose(session, campaign_id, *arms, metric="nll_bits")
    assert next_one(database, campaign_id, again) is None


def test_where_what_stands_for_it_does_not_run_it_waits_again_and_goes_the_other_way(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        asked = propose(session, campaign_id, {GROUP: 128}, {GROUP: 32}, metric="nll_bits")
    ways = []
    for _ in range(2):
        anew = next_one(database, campaign_id, asked)
        assert anew is not None
        ways.append(does_not_run(database, campaign_id, anew).control[KERNEL])
        with database.read() as session:
            assert session.get_one(Hypothesis, asked).state is HypothesisState.QUEUED
            told = events.read(session, kinds=[EventKind.HYPOTHESIS_REQUEUED])[-1]
            assert (told.subject, told.text.split(",")[0]) == ("H-004", f"Waits again: H-{anew:03}")
    assert ways == ["machete", "marlin"]
    assert next_one(database, campaign_id, asked) is None, (
        "both ways were tried: it is tested as it was asked"
    )


def test_what_another_campaign_saw_holds_here_as_long_as_the_versions_do(
    campaign: tuple[Database, int], tmp_path: Path
) -> None:
    database, first = campaign
    _, second = start(tmp_path, database, space_text=WITH_CORPUS, **{"baseline.sweep": []})
    measure_baseline(database, second)
    with database.write() as session:
        asked = propose(session, second, {GROUP: 32}, {GROUP: 128})
        assert session.get_one(Hypothesis, asked).campaign_id == second != first
    with database.write() as session:
        versions = {"vllm": "0.26.0"}
        for experiment in session.scalars(select(Experiment)):
            experiment.versions = versions if experiment.campaign_id == first else {"vllm": "0.33.0"}
    assert next_one(database, second, asked) is None, "another version may choose otherwise"
    with database.write() as session:
        for experiment in session.scalars(select(Experiment)):
            experiment.versions = versions
    assert next_one(database, second, asked) is not None
    with database.read() as session:
        reason = session.get_one(Hypothesis, asked).state_reason
    assert reason is not None
    assert reason.startswith(
        "Not tested as it was asked, for what confounded E-0002 of C-1 would confound it"
    )


def test_what_tells_of_pace_alone_confounds_times_and_no_scores(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        for metric in ("nll_bits", "ttft_ms"):
            propose(session, campaign_id, {GROUP: 128}, {GROUP: 32}, metric=metric)
    with database.read() as session:
        facts = read_facts(session, campaign_id)
    scored, timed = (each for each in facts.queue if each.metric in ("nll_bits", "ttft_ms"))
    trial = facts.trials[0]
    told = [Confounder(2, 1, trial.control, trial.candidate, (Difference("threads", "8", "13"),))]
    assert foresee(scored, told) is None
    found = foresee(timed, told)
    assert found is not None
    assert found.differences == (Difference("threads", "13", "8"),), "as this one's arms are"
    assert foresee(timed, told, pinned=("threads",)) is None


def question(name: str, control: int, candidate: int) -> dict[str, object]:
    return {
        "id": name,
        "asks": "Does the size of groups matter?",
        "claim": f"Groups of {candidate} make a token at least 3 % faster than groups of {control}.",
        "control": {"simulated.group": control},
        "candidate": {"simulated.group": candidate},
        "metric": "tpot_ms",
        "min_effect": "3%",
        "why": "It is what one would conclude from 4.37 and 3.67 ms.",
    }


def test_a_campaign_asks_its_second_question_without_the_confounded_test(tmp_path: Path) -> None:
    database, campaign_id = start(
        tmp_path,
        space_text=SIMULATED,
        questions=[question("smaller", 128, 32), question("larger", 32, 128)],
        proposers=["rules"],
        **{"baseline.sweep": []},
    )

    def stop_when_answered() -> None:
        with database.read() as session:
            anew = session.scalars(
                select(Verdict.id)
                .join(Hypothesis, Hypothesis.id == Verdict.hypothesis_id)
                .where(Hypothesis.change["separates"]["foreseen"].as_boolean())
                .where(Verdict.outcome != VerdictOutcome.INFEASIBLE)
            ).all()
            going = session.get_one(steering.Campaign, campaign_id).state is steering.CampaignState.RUNNING
        if going and anew:
            with database.write() as session:
                steering.stop_campaign(session, campaign_id)

    drive(database, tmp_path, campaign_id, stop_when_answered)
    with database.read() as session:
        asked = {each.question: each for each in session.scalars(select(Hypothesis)) if each.question}
        tested = set(session.scalars(select(Experiment.hypothesis_id)))
        page = answers_markdown(campaign_answers(session, campaign_id))
    database.close()
    smaller, larger = asked["smaller"], asked["larger"]
    assert {smaller.state, larger.state} == {HypothesisState.CONFOUNDED}
    assert (smaller.id in tested, larger.id in tested) == (True, False)
    assert f"H-{larger.id:03}, as it was asked: Not tested as it was asked, for what confounded" in page
    assert f"for H-{larger.id:03} |" in page

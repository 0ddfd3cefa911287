"""A confounded test and what follows: the recorded kernels in a real campaign, and a campaign that runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.decision.choosing import choose
from agent.campaign.decision.desk import Desk
from agent.campaign.known.measured import read_measured
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.outcome import campaign_outcome
from agent.campaign.loop import CampaignLoop
from agent.campaign.queue.dispatch import dispatch_test
from agent.ground.legal import legal_here
from agent.proposers.separation import PROPOSER
from db import events
from db.event_kinds import EventKind
from db.labels import parse_label
from db.models import Experiment, Finding, Hypothesis, HypothesisParent, Verdict
from db.session import Database
from db.states import HypothesisState, VerdictOutcome
from experiments.measurement.judging import Outcome
from experiments.recording import load_test_spec
from knowledge.acts import steering
from knowledge.queries.facts import campaign_facts
from knowledge.telling.summary import summarize
from tests.recorded.vllm_kernels import SPACE
from tests.simulated.by_hand import measure_baseline
from tests.simulated.campaign import drive, start
from tests.simulated.recorded_kernels import (
    GROUP,
    KERNEL,
    SIMULATED,
    does_not_run,
    propose,
    ranked,
    run_recorded,
)

WITHOUT_KERNEL = SPACE.partition("  - name: serving.linear_kernel")[0]
FIRST_CORNER = {"experiment": "E-0002", "corner": "as in the control"}


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[tuple[Database, int]]:
    database, campaign_id = start(tmp_path, space_text=SPACE, **{"baseline.sweep": []})
    measure_baseline(database, campaign_id)
    yield database, campaign_id
    database.close()


def test_the_recorded_trap_is_caught_and_its_follow_ups_stand_in_the_queue_with_their_reason(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        trap = propose(session, campaign_id, {GROUP: 32}, {GROUP: 128})
    assert run_recorded(database, campaign_id, trap, "w4-g32", "w4-g128") is Outcome.CONFOUNDED
    with database.read() as session:
        verdict = session.scalars(select(Verdict)).one()
        assert "linear_kernel is MarlinLinearKernel in the control, MacheteLinearKernel" in verdict.reason
        assert verdict.judge["confounders"] == [
            {"key": "linear_kernel", "control": "MarlinLinearKernel", "candidate": "MacheteLinearKernel"}
        ]
        assert session.scalars(select(Finding)).all() == []
        told = events.read(session, kinds=[EventKind.EXPERIMENT_CONFOUNDED])[-1]
        assert (told.subject, told.data) == ("E-0002", {"follow_ups": ["H-002", "H-003"]})
        parents = session.execute(select(HypothesisParent.hypothesis_id, HypothesisParent.parent_id)).all()
        assert {(2, trap), (3, trap)} <= {(row[0], row[1]) for row in parents}
    groups, kernel = ranked(database, campaign_id)
    assert [groups.id, kernel.id] == ["H-002", "H-003"]
    assert [str(each.reason).partition(":")[2].partition(";")[0] for each in (groups, kernel)] == [
        " separates the causes of E-0002, in the place of H-001",
        " separates the causes of E-0002",
    ]
    assert [(c.knob, c.before, c.after) for c in groups.change] == [(GROUP, 32, 128)]
    assert [(c.knob, c.before, c.after) for c in kernel.change] == [(KERNEL, "machete", "marlin")]
    with database.read() as session:
        facts = read_facts(session, campaign_id)
        told = [session.get_one(Hypothesis, number).change["separates"] for number in (2, 3)]
        assert told == [
            {**FIRST_CORNER, "stands_for": trap, "held": {KERNEL: "marlin"}},
            FIRST_CORNER,
        ]
        assert {each.control[KERNEL] for each in facts.queue} == {"marlin", "machete"}
        desk = Desk(
            facts, legal_here(facts.spec, facts.checkpoint, facts.cores), read_measured(session, facts), ()
        )
        assert desk.leaving == {}
        choice = choose(desk, 1e6)
        assert choice.hypothesis is not None
        assert choice.hypothesis.separates == "E-0002"


def test_the_follow_ups_are_no_longer_confounded(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        trap = propose(session, campaign_id, {GROUP: 32}, {GROUP: 128})
    run_recorded(database, campaign_id, trap, "w4-g32", "w4-g128")
    groups = run_recorded(database, campaign_id, 2, "w4-g32", "w4-g128-marlin")
    kernel = run_recorded(database, campaign_id, 3, "w4-g128", "w4-g128-marlin")
    assert Outcome.CONFOUNDED not in (groups, kernel)


def test_nothing_is_learnt_about_the_lever_from_a_confounded_test(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign

    def believed() -> tuple[object, ...]:
        with database.read() as session:
            facts = read_facts(session, campaign_id)
            legal = legal_here(facts.spec, facts.checkpoint, facts.cores)
            beliefs = Desk(facts, legal, read_measured(session, facts), ()).beliefs
        arms = [
            legal.space.configuration({"quantization.method": "awq", GROUP: group}) for group in (32, 128)
        ]
        return beliefs.predict(*arms), beliefs.p_quality(arms[1])

    with database.write() as session:
        trap = propose(session, campaign_id, {GROUP: 32}, {GROUP: 128})
    before = believed()
    run_recorded(database, campaign_id, trap, "w4-g32", "w4-g128")
    assert believed() == before
    with database.read() as session:
        found = summarize(campaign_facts(session, campaign_id))
        outcome = campaign_outcome(session, campaign_id)
    assert found.confounded.sentence == "1 test is confounded, which says nothing about the claim."
    assert found.confounded.lines[0].endswith("H-002 and H-003 separate the causes")
    assert found.ruled_out.sentence == "Nothing is ruled out yet."
    assert found.supported.sentence == "Nothing is supported yet."
    assert found.surprised.sentence == "Nothing predicted was measured yet."
    assert outcome["hypotheses"]["confounded"] == 1
    assert (outcome["discovery"]["tests"], outcome["discovery"]["supported"]) == (1, 0)


def test_a_follow_up_that_can_not_run_is_replaced_by_the_way_over_the_other_corner(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        trap = propose(session, campaign_id, {GROUP: 128}, {GROUP: 32})
    assert run_recorded(database, campaign_id, trap, "w4-g128", "w4-g32") is Outcome.CONFOUNDED
    pinned = does_not_run(database, campaign_id, 2)  # groups of 32 on Machete, which there are not
    assert (pinned.candidate[KERNEL], pinned.candidate[GROUP]) == ("machete", 32)
    with database.read() as session:
        facts = read_facts(session, campaign_id)
        claim, kernel = (each for each in facts.queue if each.id in (4, 5))
    assert (claim.control[KERNEL], claim.candidate[KERNEL]) == ("marlin", "marlin")
    assert (kernel.control[GROUP], kernel.candidate[GROUP]) == (128, 128)
    assert claim.separates == kernel.separates == "E-0002"
    assert (claim.stands_for, kernel.stands_for) == (trap, None)
    with database.read() as session:
        assert session.get_one(Hypothesis, claim.id).change["separates"]["held"] == {KERNEL: "marlin"}


def test_a_claim_that_was_judged_anew_is_not_made_once_more_where_its_other_cause_can_not_run(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        trap = propose(session, campaign_id, {GROUP: 32}, {GROUP: 128})
    run_recorded(database, campaign_id, trap, "w4-g32", "w4-g128")
    assert run_recorded(database, campaign_id, 2, "w4-g32", "w4-g128-marlin") is not Outcome.CONFOUNDED
    does_not_run(database, campaign_id, 3)
    with database.read() as session:
        facts = read_facts(session, campaign_id)
    assert [(each.separates, each.stands_for) for each in facts.queue] == [("E-0002", None)]
    assert {each.control[GROUP] for each in facts.queue} == {32}, "the kernel alone, beside the control"


def test_what_stands_for_a_question_about_bytes_is_held_against_its_own_control_as_that_is(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    against = []
    for kernel, asks in (
        ("auto", {"question": "bytes"}),
        ("marlin", {"separates": {"experiment": "E-0002", "stands_for": 1}}),
        ("machete", {"separates": {"experiment": "E-0002"}}),
    ):
        with database.write() as session:
            arms = [{GROUP: group, KERNEL: kernel} for group in (32, 128)]
            hypothesis = propose(session, campaign_id, *arms, metric="step_weight_bytes", **asks)
            facts = read_facts(session, campaign_id)
            queued = next(each for each in facts.queue if each.id == hypothesis)
            spec = load_test_spec(session, dispatch_test(session, facts, queued))
        against.append(spec.reference == dict(queued.control))
    assert against == [True, True, False]


def test_what_no_knob_fixes_is_said_and_nothing_is_queued(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        pinned = propose(session, campaign_id, {GROUP: 32, KERNEL: "marlin"}, {GROUP: 128, KERNEL: "marlin"})
    assert run_recorded(database, campaign_id, pinned, "w4-g32", "w4-g128") is Outcome.CONFOUNDED
    with database.read() as session:
        told = events.read(session, kinds=[EventKind.EXPERIMENT_CONFOUNDED])[-1]
        assert read_facts(session, campaign_id).queue == ()
    assert "serving.linear_kernel is marlin in both arms already" in told.text
    assert told.text.endswith("Make both arms alike there and test again.")


def test_what_no_knob_fixed_is_followed_up_once_a_campaign_is_taken_up_where_a_knob_does(
    tmp_path: Path,
) -> None:
    """An older space had no knob for the kernel: its tests stayed confounded, with no follow-up, for good."""
    database, campaign_id = start(tmp_path, space_text=WITHOUT_KERNEL, **{"baseline.sweep": []})
    measure_baseline(database, campaign_id)
    with database.write() as session:
        trap = propose(session, campaign_id, {GROUP: 32}, {GROUP: 128})
    assert run_recorded(database, campaign_id, trap, "w4-g32", "w4-g128") is Outcome.CONFOUNDED
    assert follow_ups_told(database) == [[]]
    with database.write() as session:
        steering.pause_campaign(session, campaign_id)
    for text, told in ((WITHOUT_KERNEL, [0]), (SPACE, [0, 2]), (SPACE, [0, 2])):
        (tmp_path / "space.yaml").write_text(text)
        take_up(database, campaign_id)
        assert [len(each) for each in follow_ups_told(database)] == told
    with database.read() as session:
        facts = read_facts(session, campaign_id)
    separating = [(each.id, each.stands_for) for each in facts.queue if each.separates == "E-0002"]
    assert separating == list(zip(follow_ups_told(database)[-1], (trap, None), strict=True))
    database.close()


def follow_ups_told(database: Database) -> list[list[int]]:
    with database.read() as session:
        told = events.read(session, kinds=[EventKind.EXPERIMENT_CONFOUNDED])
    return [[parse_label(each)[1] for each in event.data["follow_ups"]] for event in told]


class Left(Exception):
    """The loop of the test has looked once."""


def take_up(database: Database, campaign_id: int) -> None:
    """A loop that takes the paused campaign up, ranks, tests nothing, and is left."""

    def leave(seconds: float) -> None:
        raise Left

    with pytest.raises(Left):
        CampaignLoop(database, campaign_id, wait=leave).run()


def test_what_confounds_test_after_test_is_told_as_no_lever_s(campaign: tuple[Database, int]) -> None:
    """Ten of twelve tests of a night were confounded by one cause, and each said so of itself alone."""
    database, campaign_id = campaign
    texts = []
    for before, after, kernel in ((32, 128, "marlin"), (128, 32, "marlin"), (32, 128, "machete")):
        with database.write() as session:
            pinned = propose(
                session, campaign_id, {GROUP: before, KERNEL: kernel}, {GROUP: after, KERNEL: kernel}
            )
        assert run_recorded(database, campaign_id, pinned, "w4-g32", "w4-g128") is Outcome.CONFOUNDED
        with database.read() as session:
            texts.append(events.read(session, kinds=[EventKind.EXPERIMENT_CONFOUNDED])[-1].text)
    assert [text.endswith("Make both arms alike there and test again.") for text in texts] == [
        True,
        True,
        False,
    ]
    assert texts[-1].endswith(
        "By now 3 of 3 tests were confounded by linear_kernel: look for the cause in the engine or the "
        "machine, for no lever's change explains it."
    )


def test_a_follow_up_that_is_confounded_itself_is_not_followed_up(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        trap = propose(session, campaign_id, {GROUP: 32}, {GROUP: 128})
    run_recorded(database, campaign_id, trap, "w4-g32", "w4-g128")
    assert run_recorded(database, campaign_id, 2, "w4-g32", "w4-g128") is Outcome.CONFOUNDED
    with database.read() as session:
        told = events.read(session, kinds=[EventKind.EXPERIMENT_CONFOUNDED])[-1]
        assert [each.id for each in read_facts(session, campaign_id).queue] == [3]
    assert told.text.startswith("No follow-up is proposed: this one was to separate the causes of E-0002")


QUESTION = {
    "id": "groups",
    "asks": "Are groups of 32 faster than groups of 128?",
    "claim": "Groups of 32 make a token at least 3 % faster than groups of 128.",
    "control": {"simulated.group": 128},
    "candidate": {"simulated.group": 32},
    "metric": "tpot_ms",
    "min_effect": "3%",
    "why": "It is what one would conclude from 4.37 and 3.67 ms.",
}


def test_a_campaign_that_asks_the_wrong_question_finds_the_kernel_and_not_the_group_size(
    tmp_path: Path,
) -> None:
    database, campaign_id = start(
        tmp_path, space_text=SIMULATED, questions=[QUESTION], proposers=["rules"], **{"baseline.sweep": []}
    )

    def stop_when_separated() -> None:
        with database.read() as session:
            judged = session.scalars(
                select(Hypothesis.state).where(Hypothesis.proposer == PROPOSER, Hypothesis.state.in_(DONE))
            ).all()
            going = session.get_one(steering.Campaign, campaign_id).state is steering.CampaignState.RUNNING
        if going and judged.count(HypothesisState.INFEASIBLE) + 2 <= len(judged):
            with database.write() as session:
                steering.stop_campaign(session, campaign_id)

    drive(database, tmp_path, campaign_id, stop_when_separated)
    with database.read() as session:
        rows = session.execute(
            select(Hypothesis, Verdict)
            .join(Experiment, Experiment.hypothesis_id == Hypothesis.id)
            .join(Verdict, Verdict.experiment_id == Experiment.id)
            .order_by(Verdict.id)
        ).all()
        asked = next(verdict for hypothesis, verdict in rows if hypothesis.question == "groups")
        followed = {
            tuple(sorted({change["knob"] for change in hypothesis.change["changes"]})): verdict
            for hypothesis, verdict in rows
            if hypothesis.proposer == PROPOSER and verdict.outcome is not VerdictOutcome.INFEASIBLE
        }
    database.close()
    assert asked.outcome is VerdictOutcome.CONFOUNDED
    groups, kernel = followed["simulated.group",], followed["simulated.kernel",]
    assert groups.outcome is VerdictOutcome.REFUTED, groups.reason
    assert kernel.outcome is VerdictOutcome.SUPPORTED, kernel.reason


DONE = (
    HypothesisState.SUPPORTED,
    HypothesisState.REFUTED,
    HypothesisState.INCONCLUSIVE,
    HypothesisState.CONFOUNDED,
    HypothesisState.INFEASIBLE,
)

"""Findings of two cards that disagree, and what a campaign tests about it; kernels as vLLM recorded them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event, select
from sqlalchemy.orm import Session

from agent.campaign.decision.desk import Desk
from agent.campaign.known.measured import read_measured
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.ruled_out import read_ruled_out
from agent.campaign.queue.accept import accept
from agent.campaign.separation import disputes_near as reading
from agent.campaign.separation.disputes_near import disputes_near
from agent.campaign.separation.disputing import room_for_disputes, take_disputes_apart, take_up_disputes
from agent.ground.legal import legal_here
from agent.proposers.dispute import PROPOSER
from agent.proposers.port import Draft
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Configuration, Event, Experiment, Finding, Hypothesis, Verdict
from db.session import Database
from db.states import Arm, FindingStatus, HypothesisState, VerdictOutcome
from experiments.measurement.plan import Prediction, StoppingPlan
from knowledge.findings.exchange import read_file
from knowledge.findings.importing import export_verdicts, import_verdicts
from knowledge.findings.keeping import update_findings
from knowledge.queries.found.finding_detail import finding_detail
from tests.history.campaign_history import add_experiment, add_launch
from tests.recorded.vllm_kernels import SPACE
from tests.simulated.by_hand import measure_baseline
from tests.simulated.campaign import start
from tests.simulated.turn_by_turn import Bench

GROUP, KERNEL = "quantization.group_size", "serving.linear_kernel"
SUPPORTED_THERE = {"outcome": "supported", "effect_log": -0.1, "low_log": -0.12, "high_log": -0.08}
EXPECTED = Prediction(log_ratio_mean=-0.05, log_ratio_sd=0.05)


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[tuple[Database, int]]:
    database, campaign_id = start(tmp_path, space_text=SPACE, **{"baseline.sweep": []})
    measure_baseline(database, campaign_id)
    yield database, campaign_id
    database.close()


def refuted_here(session: Session, campaign_id: int) -> int:
    """Groups of 128 are tested here, where Marlin runs both arms, and are no faster; the experiment's id."""
    facts = read_facts(session, campaign_id)
    space = legal_here(facts.spec, facts.checkpoint, facts.cores).space
    awq = {"quantization.method": "awq"}
    draft = Draft(
        claim="Groups of 128 make a token at least 3 % faster than groups of 32.",
        control=space.configuration({**awq, GROUP: 32}),
        candidate=space.configuration({**awq, GROUP: 128}),
        lever="quantization",
        prediction=EXPECTED,
        min_effect=0.03,
        refuted_if="They do not.",
        rationale="Fewer scales are read.",
        proposer="user",
    )
    hypothesis = session.get_one(
        Hypothesis, accept(session, campaign_id, draft, "tpot_ms", space).hypothesis_id
    )
    hypothesis.state, hypothesis.rank = HypothesisState.REFUTED, None
    plan = {**facts.spec.plan.model_dump(), "prediction": EXPECTED, "min_effect": 0.03}
    experiment = add_experiment(
        session, hypothesis, StoppingPlan.model_validate(plan), target=facts.target_key
    )
    for arm in Arm:
        resolved = {"linear_kernel": "MarlinLinearKernel", "versions": {"vllm": "0.26.0"}}
        add_launch(session, experiment, arm, "full", resolved, [], {})
    verdict = Verdict(
        experiment_id=experiment.id,
        hypothesis_id=hypothesis.id,
        outcome=VerdictOutcome.REFUTED,
        effect_log=0.0,
        interval_low_log=-0.01,
        interval_high_log=0.01,
        launches=4,
        samples=8,
        quality={"state": "held"},
        reason="It is no faster.",
        judge={"name": "launch-interval", "version": "1", "details": {}},
    )
    session.add(verdict)
    session.flush()
    update_findings(session, verdict.id)
    return experiment.id


def supported_elsewhere(session: Session, kernel: str, target: str = "gpu:NVIDIA H200:141 GB") -> None:
    """The same on another card, where another kernel ran, and where it helped."""
    told = json.loads(export_verdicts(session, "lab").model_dump_json())
    for verdict in told["verdicts"]:
        verdict |= SUPPORTED_THERE | {
            "target": target,
            "ran": {"linear_kernel": kernel},
        }
    import_verdicts(session, read_file(json.dumps(told), "lab.json"))


def test_a_finding_that_another_card_disputes_is_tested_with_the_kernel_that_ran_there(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        experiment_id = refuted_here(session, campaign_id)
        assert take_disputes_apart(session, experiment_id) == ()  # nothing disputes it yet
        supported_elsewhere(session, "MacheteLinearKernel")
        (number,) = take_disputes_apart(session, experiment_id)
        assert take_disputes_apart(session, experiment_id) == ()  # once is enough
    with database.read() as session:
        found = session.get_one(Hypothesis, number)
        arms = [
            session.get_one(Configuration, each).knobs
            for each in (found.control_configuration_id, found.candidate_configuration_id)
        ]
        assert [(arm[GROUP], arm[KERNEL]) for arm in arms] == [(32, "machete"), (128, "machete")]
        assert (found.proposer, found.state) == (PROPOSER, HypothesisState.QUEUED)
        assert found.claim.endswith(f"with {KERNEL} at machete in both arms.")
        assert found.rationale.startswith(
            "F-002 says that it helps, F-001 that it does not help: it holds on"
        )
        assert found.change["disputes"] == {
            "findings": ["F-002", "F-001"],
            "knob": KERNEL,
            "value": "machete",
        }
        (dispute,) = finding_detail(session, 1).disputes
        assert (dispute.other, dispute.hypotheses) == ("F-002", (f"H-{number:03d}",))
        facts = read_facts(session, campaign_id)
        assert next(each.disputes for each in facts.queue if each.id == number) == ("F-002", "F-001")
        assert facts.disputes_tested == 0
    with database.write() as session:
        session.get_one(Hypothesis, number).state = HypothesisState.TESTING
    with database.read() as session:
        assert read_facts(session, campaign_id).disputes_tested == 1


def test_where_the_same_kernel_ran_there_is_nothing_that_a_knob_could_take_apart(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        experiment_id = refuted_here(session, campaign_id)
        supported_elsewhere(session, "MarlinLinearKernel")
        assert take_disputes_apart(session, experiment_id) == ()
        assert session.get_one(Experiment, experiment_id).campaign_id == campaign_id
        assert len(finding_detail(session, 1).disputes) == 1


def test_versions_alone_make_no_dispute_because_the_later_finding_supersedes_the_other(
    campaign: tuple[Database, int], tmp_path: Path
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        refuted_here(session, campaign_id)
        told = json.loads(export_verdicts(session, "lab").model_dump_json())
        told["verdicts"][0] |= SUPPORTED_THERE | {"versions": {"vllm": "0.27.0"}}
        done = import_verdicts(session, read_file(json.dumps(told), "lab.json"))
        assert done.disputes == ()
        found = session.get_one(Finding, 1)
        assert (found.status, found.superseded_by_id) == (FindingStatus.SUPERSEDED, 2)
        assert found.status_reason == "F-002 says otherwise on newer versions."
    _, second = start(tmp_path, database, space_text=SPACE, **{"baseline.sweep": []})
    measure_baseline(database, second)
    with database.write() as session:
        assert taken_up(session, desk_of(session, second), 0)[0] == ()
        row, spec = session.get_one(Campaign, second), read_facts(session, second).spec
        assert read_ruled_out(session, row, spec) == (), "so the change may be tested again"


def desk_of(session: Session, campaign_id: int) -> Desk:
    facts = read_facts(session, campaign_id)
    legal = legal_here(facts.spec, facts.checkpoint, facts.cores)
    return Desk(facts, legal, read_measured(session, facts), ())


def taken_up(session: Session, desk: Desk, since: int) -> tuple[tuple[int, ...], int]:
    """What the campaign queues of the disputes told after an event, and the last event looked at."""
    room = room_for_disputes(desk)
    if room <= 0:
        return (), since
    taken = take_up_disputes(session, desk, disputes_near(session, desk, since), room)
    return taken.hypotheses, taken.through


def of_disputes(session: Session) -> list[Hypothesis]:
    query = select(Hypothesis).where(Hypothesis.proposer == PROPOSER).order_by(Hypothesis.id)
    return list(session.scalars(query))


def test_verdicts_that_come_in_and_contradict_become_hypotheses_before_the_queue_is_ranked_next(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        refuted_here(session, campaign_id)
        supported_elsewhere(session, "MacheteLinearKernel")
        assert of_disputes(session) == []
    Bench(database, campaign_id).drive()
    with database.read() as session:
        (found,) = of_disputes(session)
        assert found.claim.endswith(f"with {KERNEL} at machete in both arms.")
        assert found.change["disputes"]["findings"] == ["F-002", "F-001"]
        proposed = session.scalars(
            select(Event.id).where(Event.kind == EventKind.HYPOTHESIS_PROPOSED, Event.subject == "H-002")
        ).one()
        ranked = session.scalars(select(Event.id).where(Event.kind == EventKind.QUEUE_RANKED)).first()
        assert ranked is not None
        assert proposed < ranked


def test_a_later_campaign_takes_up_what_was_measured_before_it_and_is_disputed_since(
    campaign: tuple[Database, int], tmp_path: Path
) -> None:
    database, first = campaign
    with database.write() as session:
        refuted_here(session, first)
        supported_elsewhere(session, "MacheteLinearKernel")
    _, second = start(tmp_path, database, space_text=SPACE, **{"baseline.sweep": []})
    measure_baseline(database, second)
    with database.write() as session:
        (number,), through = taken_up(session, desk_of(session, second), 0)
        assert session.get_one(Hypothesis, number).campaign_id == second
        assert taken_up(session, desk_of(session, second), through) == ((), through)
        assert taken_up(session, desk_of(session, second), 0) == ((), through)  # once is enough


def of_another_engine(session: Session, count: int) -> None:
    """As many findings each way of one change on an engine that no campaign here has, each pair disputed."""
    like = session.get_one(Finding, 1).scope
    change = [{"knob": "another.knob", "before": 1, "after": 2}]
    sides: list[list[str]] = [[], []]
    for number in range(2 * count):
        saying = "helps" if number % 2 else "does not help"
        scope = {**like, "engine": "another", "change": change, "saying": saying}
        key = f"tpot_ms: another.knob 1 → 2 #{number}@1"
        row = Finding(key=key, claim="", scope=scope, rule="effect", strength="measured")
        session.add(row)
        session.flush()
        sides[number % 2].append(format_label(Noun.FINDING, row.id))
    for missed in sides[0]:
        for helps in sides[1]:
            told = {"findings": [helps, missed]}
            events.append(session, EventKind.FINDING_DISPUTED, "Is it chance?", helps, None, told)


def test_disputes_that_concern_no_campaign_here_are_passed_over_in_a_few_statements(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        refuted_here(session, campaign_id)
        of_another_engine(session, 20)
        supported_elsewhere(session, "MacheteLinearKernel")
    with database.read() as session:
        desk = desk_of(session, campaign_id)
        said: list[str] = []

        def heard(*args: object) -> None:
            said.append(str(args[2]))

        event.listen(session.connection(), "before_cursor_execute", heard)
        near = disputes_near(session, desk, 0)
        event.remove(session.connection(), "before_cursor_execute", heard)
    ((told, dispute),) = near.disputes
    assert dispute.labels == ("F-042", "F-001")
    assert (near.is_all, near.through) == (True, told)
    assert len(said) <= 5, "events, the campaign, findings, hypotheses, what was measured here"


def test_events_and_disputes_are_looked_at_a_few_at_a_time_until_all_are(
    campaign: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, campaign_id = campaign
    monkeypatch.setattr(reading, "MOST_READ", 7)
    monkeypatch.setattr(reading, "MOST_NEAR", 1)
    with database.write() as session:
        refuted_here(session, campaign_id)
        of_another_engine(session, 3)
        supported_elsewhere(session, "MarlinLinearKernel")  # no knob takes this apart
        supported_elsewhere(session, "MacheteLinearKernel", "gpu:NVIDIA L4:24 GB")
    with database.read() as session:
        desk = desk_of(session, campaign_id)
        looks, since, is_all = [], 0, False
        while not is_all:
            near = disputes_near(session, desk, since)
            looks.append(len(near.disputes))
            since, is_all = near.through, near.is_all
    assert looks == [0, 1, 1]
    Bench(database, campaign_id).drive()
    with database.read() as session:
        (found,) = of_disputes(session)
        ranked = session.scalars(select(Event.id).where(Event.kind == EventKind.QUEUE_RANKED)).first()
        proposed = session.scalars(
            select(Event.id).where(
                Event.kind == EventKind.HYPOTHESIS_PROPOSED,
                Event.subject == format_label(Noun.HYPOTHESIS, found.id),
            )
        ).one()
        assert ranked is not None
        assert proposed < ranked


def test_a_campaign_of_another_workload_takes_no_dispute_up(
    campaign: tuple[Database, int], tmp_path: Path
) -> None:
    database, first = campaign
    with database.write() as session:
        refuted_here(session, first)
        supported_elsewhere(session, "MacheteLinearKernel")
    changes = {"baseline.sweep": [], "plan.workload.new_tokens": 16}
    _, second = start(tmp_path, database, space_text=SPACE, **changes)
    measure_baseline(database, second)
    with database.write() as session:
        queued, through = taken_up(session, desk_of(session, second), 0)
        assert queued == ()
        assert through > 0


def test_verdicts_of_one_scope_that_disagree_are_asked_for_once_more_by_a_campaign_that_did_not_test_it(
    campaign: tuple[Database, int], tmp_path: Path
) -> None:
    database, first = campaign
    with database.write() as session:
        tested_id = refuted_here(session, first)
        told = json.loads(export_verdicts(session, "lab").model_dump_json())
        told["verdicts"][0] |= SUPPORTED_THERE
        done = import_verdicts(session, read_file(json.dumps(told), "lab.json"))
        assert done.disputes[0].startswith("Verdicts within F-001 disagree")
        assert taken_up(session, desk_of(session, first), 0)[0] == ()
        (dispute,) = finding_detail(session, 1).disputes
        assert dispute.answered_by == f"autoinfer reproduce E-{tested_id:04d}"
    _, second = start(tmp_path, database, space_text=SPACE, **{"baseline.sweep": []})
    measure_baseline(database, second)
    with database.write() as session:
        desk = desk_of(session, second)
        (number,), through = taken_up(session, desk, 0)
        found, tested = session.get_one(Hypothesis, number), session.get_one(Hypothesis, 1)
        assert found.claim == "Groups of 128 make a token at least 3 % faster than groups of 32, once more."
        assert found.rationale.endswith("Here the same test again.")
        assert found.control_configuration_id == tested.control_configuration_id
        assert found.candidate_configuration_id == tested.candidate_configuration_id
        assert found.change["disputes"] == {"findings": ["F-001"]}
        assert taken_up(session, desk, 0) == ((), through)  # once is enough
        (dispute,) = finding_detail(session, 1).disputes
        assert (dispute.other, dispute.hypotheses) == (None, (f"H-{number:03d}",))
        assert dispute.command is None

"""Findings of two cards that disagree, and what a campaign tests about it; kernels as vLLM recorded them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.accept import accept
from agent.campaign.desk import Desk
from agent.campaign.disputing import take_disputes_apart, take_up_disputes
from agent.campaign.measured import read_measured
from agent.campaign.reading_facts import read_facts
from agent.campaign.ruled_out import read_ruled_out
from agent.ground.legal import legal_here
from agent.proposers.dispute import PROPOSER
from agent.proposers.port import Draft
from db.event_kinds import EventKind
from db.models import Campaign, Configuration, Event, Experiment, Finding, Hypothesis, Verdict
from db.session import Database
from db.states import Arm, FindingStatus, HypothesisState, VerdictOutcome
from experiments.measurement.plan import Prediction, StoppingPlan
from knowledge.findings.exchange import read_file
from knowledge.findings.importing import export_verdicts, import_verdicts
from knowledge.findings.keeping import update_findings
from knowledge.queries.finding_detail import finding_detail
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


def supported_elsewhere(session: Session, kernel: str) -> None:
    """The same on another card, where another kernel ran, and where it helped."""
    told = json.loads(export_verdicts(session, "lab").model_dump_json())
    for verdict in told["verdicts"]:
        verdict |= SUPPORTED_THERE | {
            "target": "gpu:NVIDIA H200:141 GB",
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
        assert take_up_disputes(session, desk_of(session, second), 0)[0] == ()
        row, spec = session.get_one(Campaign, second), read_facts(session, second).spec
        assert read_ruled_out(session, row, spec) == (), "so the change may be tested again"


def desk_of(session: Session, campaign_id: int) -> Desk:
    facts = read_facts(session, campaign_id)
    legal = legal_here(facts.spec, facts.checkpoint, facts.cores)
    return Desk(facts, legal, read_measured(session, facts), ())


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
        (number,), through = take_up_disputes(session, desk_of(session, second), 0)
        assert session.get_one(Hypothesis, number).campaign_id == second
        assert take_up_disputes(session, desk_of(session, second), through) == ((), through)
        assert take_up_disputes(session, desk_of(session, second), 0) == ((), through)  # once is enough


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
        queued, through = take_up_disputes(session, desk_of(session, second), 0)
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
        assert take_up_disputes(session, desk_of(session, first), 0)[0] == ()
        (dispute,) = finding_detail(session, 1).disputes
        assert dispute.answered_by == f"autoinfer reproduce E-{tested_id:04d}"
    _, second = start(tmp_path, database, space_text=SPACE, **{"baseline.sweep": []})
    measure_baseline(database, second)
    with database.write() as session:
        desk = desk_of(session, second)
        (number,), through = take_up_disputes(session, desk, 0)
        found, tested = session.get_one(Hypothesis, number), session.get_one(Hypothesis, 1)
        assert found.claim == "Groups of 128 make a token at least 3 % faster than groups of 32, once more."
        assert found.rationale.endswith("Here the same test again.")
        assert found.control_configuration_id == tested.control_configuration_id
        assert found.candidate_configuration_id == tested.candidate_configuration_id
        assert found.change["disputes"] == {"findings": ["F-001"]}
        assert take_up_disputes(session, desk, 0) == ((), through)  # once is enough
        (dispute,) = finding_detail(session, 1).disputes
        assert (dispute.other, dispute.hypotheses) == (None, (f"H-{number:03d}",))
        assert dispute.command is None

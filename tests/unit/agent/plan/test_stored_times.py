"""What was measured here before is found by target, model and engine, and is of no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.plan.begin import known_times
from agent.plan.load_and_request import Stored
from agent.plan.stored_times import stored_times
from configs.campaign_plan import PlanSpec, WorkloadSpec
from db.models import Campaign, Experiment, StageRun
from db.states import ExperimentKind, ExperimentState
from experiments.measurement.evidence import Stage
from tests.history.campaign_history import History, a_full_history


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> object:
    found = a_full_history(tmp_path_factory.mktemp("history"))
    yield found
    found.close()


def workload_of(session: Session) -> WorkloadSpec:
    plan = PlanSpec.model_validate(session.get_one(Campaign, 1).spec["plan"])
    return plan.workload


def of(session: Session, workload: WorkloadSpec | None = None, **other: str) -> Stored:
    campaign = session.get_one(Campaign, 1)
    asked = {"target": campaign.target, "fingerprint": campaign.model_fingerprint, "engine": "reference"}
    asked |= other
    own = workload_of(session)
    return stored_times(session, asked["target"], asked["fingerprint"], asked["engine"], workload or own)


def test_medians_are_of_this_target_model_and_engine(history: History) -> None:
    with history.database.read() as session:
        found = of(session)
        assert (found.load_s, found.same_model) == (1.5, True)
        assert found.loads > 0
        assert (found.test_s, found.baseline_s) == (42.0, None)
        assert found.tpot_ms is not None
        assert of(session, target="cpu:another") == of(session, engine="vllm") == Stored(same_model=False)


def test_a_baseline_is_told_without_the_timing_of_kernels_alone(history: History) -> None:
    with history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        arms = select(Experiment.control_configuration_id, Experiment.candidate_configuration_id).limit(1)
        control, candidate = session.execute(arms).one()
        for wall_s, kernels_s in ((259.0, 91.0), (100.0, None)):
            baseline = Experiment(
                campaign_id=campaign.id,
                kind=ExperimentKind.BASELINE,
                state=ExperimentState.DONE,
                wall_s=wall_s,
                target=campaign.target,
                control_configuration_id=control,
                candidate_configuration_id=candidate,
                plan={},
            )
            session.add(baseline)
            session.flush()
            runs = {Stage.SWEEP: 20.0} if kernels_s is None else {Stage.SWEEP: 30.0, Stage.KERNELS: kernels_s}
            for stage, stage_s in runs.items():
                session.add(StageRun(experiment_id=baseline.id, attempt=1, stage=stage.value, wall_s=stage_s))
        session.flush()
        found = of(session)
        session.rollback()
    assert (found.baseline_s, found.baselines) == ((168.0 + 100.0) / 2, 2)


@pytest.mark.parametrize("asked", ["concurrency", "prompt_tokens", "new_tokens"])
def test_times_of_requests_are_of_the_same_requests_at_once_and_loads_of_any(
    history: History, asked: str
) -> None:
    """At 64 at once a request takes longer than alone, and a test of it too; a load does not."""
    with history.database.read() as session:
        own = workload_of(session)
        other = own.model_copy(update={asked: getattr(own, asked) + 1})
        found, same = of(session, other), of(session)
    assert (found.ttft_ms, found.tpot_ms, found.baseline_s, found.test_s) == (None, None, None, None)
    assert (found.load_s, found.loads, found.timed) == (same.load_s, same.loads, same.timed)
    assert same.tpot_ms is not None
    assert same.test_s is not None


def test_another_models_loads_are_told_as_such(history: History) -> None:
    with history.database.read() as session:
        found = of(session, fingerprint="0" * 64)
    assert (found.load_s, found.same_model) == (1.5, False)
    assert (found.tpot_ms, found.test_s) == (None, None)


def test_a_model_is_known_by_the_folder_of_an_earlier_campaign(history: History) -> None:
    with history.database.read() as session:
        campaign = session.get_one(Campaign, 1)
        folder = Path(campaign.spec["found"]["checkpoint"])
        own = workload_of(session)
        assert known_times(session, campaign.target, folder, "reference", own) == of(session)

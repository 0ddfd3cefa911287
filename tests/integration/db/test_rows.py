"""Configurations, environments, samples, leases of campaigns and the roll of workers, on a real file."""

import pytest
from sqlalchemy import delete, func, select, update
from sqlalchemy.exc import IntegrityError, StatementError

from configs.errors import LeaseLost
from db import campaign_lease, workers
from db.clock import after
from db.content import put_configuration, put_environment
from db.models import Campaign, Configuration, Experiment, Hypothesis, Launch, Measurement, Worker
from db.samples import Sample, insert_samples, read_samples
from db.session import Database
from db.states import Arm, CampaignState, ExperimentKind, HypothesisState, WorkerState

DIGEST = "ab" * 32
LEASE_S = 60.0


def add_launch(database: Database, campaign_id: int, configuration_id: int) -> int:
    with database.write() as session:
        experiment = Experiment(
            campaign_id=campaign_id,
            kind=ExperimentKind.BASELINE,
            target="desk/cpu",
            control_configuration_id=configuration_id,
            plan={},
        )
        session.add(experiment)
        session.flush()
        launch = Launch(
            experiment_id=experiment.id,
            attempt=1,
            arm=Arm.CONTROL,
            index=0,
            stage="quick",
            configuration_id=configuration_id,
            resolved={},
            environment_digest=put_environment(session, DIGEST, {"cpu": "x"}),
        )
        session.add(launch)
        session.flush()
        return launch.id


def test_the_same_content_is_stored_once(database: Database) -> None:
    knobs = {"serving.dtype": "bfloat16"}
    with database.write() as session:
        first = put_configuration(session, DIGEST, knobs)
        assert put_configuration(session, DIGEST, knobs) == first
        assert put_environment(session, DIGEST, {"cpu": "x"}) == DIGEST
    with database.write() as session:
        assert put_configuration(session, DIGEST, knobs) == first
        assert put_environment(session, DIGEST, {"cpu": "x"}) == DIGEST
        assert put_configuration(session, "cd" * 32, {}) != first
        assert session.scalar(select(func.count()).select_from(Configuration)) == 2


def test_samples_come_back_as_they_were_in_their_order(
    database: Database, campaign_id: int, configuration_id: int
) -> None:
    launch_id = add_launch(database, campaign_id, configuration_id)
    samples = [
        Sample(block, position, f"prompt-{position}", seq, "itl", "ms", block + seq / 7)
        for block in range(3)
        for position in range(2)
        for seq in range(50)
    ]
    with database.write() as session:
        assert insert_samples(session, launch_id, samples) == len(samples)
        assert insert_samples(session, launch_id, []) == 0
        assert insert_samples(session, launch_id, [Sample(0, 0, "prompt-0", 0, "ttft", "ms", 9.5)]) == 1
    with database.read() as session:
        assert read_samples(session, launch_id, "itl") == samples
        assert len(read_samples(session, launch_id)) == len(samples) + 1
        assert read_samples(session, launch_id + 1) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_sample_that_is_no_number_is_refused(
    database: Database, campaign_id: int, configuration_id: int, value: float
) -> None:
    launch_id = add_launch(database, campaign_id, configuration_id)
    good = Sample(0, 0, "p", 0, "itl", "ms", 1.0)
    with pytest.raises(ValueError, match="finite"), database.write() as session:
        insert_samples(session, launch_id, [good, good._replace(value=value)])
    with database.read() as session:
        assert read_samples(session, launch_id) == []


def test_a_launch_is_not_recorded_twice(database: Database, campaign_id: int, configuration_id: int) -> None:
    launch_id = add_launch(database, campaign_id, configuration_id)
    with database.read() as session:
        launch = session.get(Launch, launch_id)
    assert launch is not None
    columns = ("experiment_id", "attempt", "arm", "index", "stage", "configuration_id", "environment_digest")
    with pytest.raises(IntegrityError), database.write() as session:
        session.add(Launch(resolved={}, **{name: getattr(launch, name) for name in columns}))


def test_what_is_referred_to_stays(database: Database, campaign_id: int, configuration_id: int) -> None:
    launch_id = add_launch(database, campaign_id, configuration_id)
    with database.write() as session:
        insert_samples(session, launch_id, [Sample(0, 0, "p", 0, "itl", "ms", 1.0)])
    with pytest.raises(IntegrityError), database.write() as session:
        session.execute(delete(Launch))
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(Measurement)) == 1


def test_the_same_comparison_is_one_hypothesis_of_a_campaign(
    database: Database, campaign_id: int, configuration_id: int
) -> None:
    def hypothesis() -> Hypothesis:
        return Hypothesis(
            campaign_id=campaign_id,
            claim="c",
            control_configuration_id=configuration_id,
            candidate_configuration_id=configuration_id,
            change={},
            change_digest=DIGEST,
            metric="tpot",
            prediction={"log_ratio_mean": -0.1, "log_ratio_sd": 0.05},
            min_effect=0.03,
            refuted_if="r",
            rationale="r",
            proposer="rules",
            lever="dtype",
        )

    with database.write() as session:
        session.add(first := hypothesis())
    assert (first.state, first.pinned, first.rank) == (HypothesisState.PROPOSED, False, None)
    assert first.created_at.tzinfo is not None
    with pytest.raises(IntegrityError), database.write() as session:
        session.add(hypothesis())


def test_a_word_outside_the_vocabulary_is_refused(database: Database, campaign_id: int) -> None:
    with pytest.raises(StatementError, match="asleep"), database.write() as session:
        session.execute(update(Campaign).values(state="asleep"))
    with database.read() as session:
        assert session.scalar(select(Campaign.state)) is CampaignState.RUNNING


def test_what_json_does_not_have_is_refused(database: Database, campaign_id: int) -> None:
    with pytest.raises((StatementError, ValueError), match="not JSON compliant"), database.write() as session:
        session.execute(update(Campaign).values(budget={"wall_s": float("inf")}))


def test_one_loop_drives_a_campaign_and_a_stale_one_writes_nothing(
    database: Database, campaign_id: int
) -> None:
    with database.write() as session:
        assert campaign_lease.take(session, campaign_id, "first", LEASE_S)
        assert campaign_lease.take(session, campaign_id, "first", LEASE_S)
        assert not campaign_lease.take(session, campaign_id, "second", LEASE_S)
        assert campaign_lease.renew(session, campaign_id, "first", LEASE_S)
        campaign_lease.hold(session, campaign_id, "first")
    with database.write() as session:
        session.execute(update(Campaign).values(owner_lease_expires_at=after(-1)))
        assert campaign_lease.take(session, campaign_id, "second", LEASE_S)
        assert not campaign_lease.renew(session, campaign_id, "first", LEASE_S)
        campaign_lease.release(session, campaign_id, "first")
    with pytest.raises(LeaseLost, match="C-1"), database.write() as session:
        campaign_lease.hold(session, campaign_id, "first")
    with database.write() as session:
        campaign_lease.hold(session, campaign_id, "second")
        campaign_lease.release(session, campaign_id, "second")
        assert campaign_lease.take(session, campaign_id, "third", LEASE_S)


def test_a_silent_worker_is_given_up_once(database: Database) -> None:
    with database.write() as session:
        silent, lively, stopped = (
            workers.register(session, name, "desk", 1, f"desk/{name}") for name in "abc"
        )
        assert workers.beat(session, lively, WorkerState.BUSY)
        assert workers.beat(session, stopped, WorkerState.STOPPED)
        session.execute(update(Worker).where(Worker.id != lively).values(heartbeat_at=after(-100)))
    with database.write() as session:
        assert [worker.id for worker in workers.give_up_silent(session, 60)] == [silent]
    with database.write() as session:
        assert workers.give_up_silent(session, 60) == []
        assert not workers.beat(session, silent, WorkerState.IDLE)
        found = {row.id: row.state for row in session.execute(select(Worker.id, Worker.state))}
    assert found == {silent: WorkerState.LOST, lively: WorkerState.BUSY, stopped: WorkerState.STOPPED}

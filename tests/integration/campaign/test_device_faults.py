"""A campaign whose device is lost, without room on its disk, or rented and used by others: nothing is
concluded, the hypothesis waits, and it ends with what to do.

Jobs are recorded as a worker does; the driver's words are invented."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.loop import CampaignLoop, LoopTimes
from agent.campaign.resources.device_faults import MOST_BUSY
from configs.errors import AutoinferError
from db import events, queue
from db.event_kinds import EventKind
from db.models import Campaign, Experiment, Hypothesis, Job, Verdict
from db.session import Database
from db.states import CampaignState, ExperimentState, HypothesisState, JobState
from experiments.disk import DISK_FULL
from experiments.engines.port import DEVICE_BUSY, DEVICE_LOST
from experiments.job.result import Failure
from experiments.worker.claiming import Taken
from experiments.worker.reporting import Reporter
from experiments.worker.settings import WorkerTimes
from tests.simulated.by_hand import LEASE_S, measure_baseline, run_by_hand
from tests.simulated.campaign import start
from tests.simulated.turn_by_turn import Bench

BUSY = Failure(DEVICE_BUSY, "cuda:0 is used by something else: process 7 (train.py) holds 30.0 GB.")
LOST = Failure(DEVICE_LOST, "cuda:0 is lost (the driver says: GPU is lost); reset it.")

FULL = Failure(
    DISK_FULL, "No space is left for runs in /data/jobs. Free some with: autoinfer artifacts prune."
)

MOST_TURNS = 50


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[tuple[Database, int]]:
    database, campaign_id = start(tmp_path)
    measure_baseline(database, campaign_id)
    yield database, campaign_id
    database.close()


def drive(database: Database, campaign_id: int, failures: list[Failure]) -> str:
    """Drive the campaign; each job that is dispatched ends with the next of the failures."""
    turns = iter(range(MOST_TURNS))

    def meanwhile(seconds: float) -> None:
        next(turns)
        with database.read() as session:
            queued = session.scalars(
                select(Job.experiment_id).where(Job.state == JobState.QUEUED, Job.campaign_id == campaign_id)
            ).all()
        for experiment_id in queued:
            assert experiment_id is not None
            run_by_hand(database, experiment_id, lambda spec: [], failures.pop(0))

    return CampaignLoop(database, campaign_id, times=LoopTimes(), wait=meanwhile).run()


def test_a_rented_device_that_others_use_is_tried_again_and_then_given_up(
    campaign: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, campaign_id = campaign
    for module in ("resources.device_faults", "device_rests"):
        monkeypatch.setattr(f"agent.campaign.{module}.is_rented", lambda device: True)
    reason = drive(database, campaign_id, [BUSY] * MOST_BUSY)
    assert reason.startswith("3 experiments in a row found its device used by others: cuda:0")
    assert "process 7 (train.py) holds 30.0 GB" in reason
    with database.read() as session:
        assert session.get_one(Campaign, campaign_id).state is CampaignState.STOPPED
        states = session.scalars(select(Experiment.state).where(Experiment.failure_kind == DEVICE_BUSY)).all()
        assert states == [ExperimentState.FAILED] * MOST_BUSY
        assert session.scalars(select(Verdict)).all() == []
        waiting = session.scalars(select(Hypothesis.state)).all()
    assert HypothesisState.QUEUED in waiting
    assert not {HypothesisState.INFEASIBLE, HypothesisState.INCONCLUSIVE, HypothesisState.TESTING} & {
        *waiting
    }


def test_a_lost_device_ends_the_campaign_at_once_and_is_told(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign
    reason = drive(database, campaign_id, [LOST])
    assert reason.startswith("its device was lost: cuda:0 is lost")
    with database.read() as session:
        (told,) = events.read(session, kinds=[EventKind.DEVICE_LOST])
        assert session.scalars(select(Verdict)).all() == []
        assert HypothesisState.QUEUED in session.scalars(select(Hypothesis.state)).all()
    assert "reset it" in told.text


def test_a_full_disk_ends_the_campaign_at_once_with_how_it_goes_on(campaign: tuple[Database, int]) -> None:
    """Each further test would fail so: they would all be called inconclusive."""
    database, campaign_id = campaign
    reason = drive(database, campaign_id, [FULL])
    assert reason == (
        "its device has no room on its machine's disk: No space is left for runs in /data/jobs. Free some "
        "with: autoinfer artifacts prune. When there is room it goes on with: autoinfer run --resume C-1"
    )
    with database.read() as session:
        assert session.scalars(select(Verdict)).all() == []
        states = set(session.scalars(select(Hypothesis.state)))
    assert HypothesisState.QUEUED in states
    assert not {HypothesisState.INFEASIBLE, HypothesisState.INCONCLUSIVE, HypothesisState.TESTING} & states


@pytest.mark.parametrize("failure", [LOST, FULL], ids=["lost", "full"])
def test_the_campaign_goes_on_where_it_was_when_it_is_taken_up_again(
    campaign: tuple[Database, int], failure: Failure
) -> None:
    database, campaign_id = campaign
    drive(database, campaign_id, [failure])
    with database.read() as session:
        first = session.scalars(select(Experiment.hypothesis_id).order_by(Experiment.id.desc())).first()
    drive(database, campaign_id, [failure])
    with database.read() as session:
        again = session.scalars(select(Experiment.hypothesis_id).order_by(Experiment.id.desc())).first()
    assert first == again


def test_a_baseline_that_a_full_disk_ended_ends_the_campaign_and_waits_for_no_room(tmp_path: Path) -> None:
    """The disk of the database has some: its end is written, and told with how the campaign goes on."""
    database, campaign_id = start(tmp_path)
    bench = Bench(database, campaign_id)

    def fail() -> None:
        with database.write() as session:
            claimed = queue.claim(session, "someone", "here/cpu", ("cpu",), LEASE_S)
        assert claimed is not None
        times = WorkerTimes(lease_s=LEASE_S)
        Reporter(database, Taken(claimed, "job1"), times, 0).fail(DISK_FULL, FULL.cause)

    told = r"The baseline could not be measured: No space is left for runs .* autoinfer run --resume C-1$"
    with pytest.raises(AutoinferError, match=told):
        bench.drive(fail, bench.nothing)
    with database.read() as session:
        assert session.get_one(Campaign, campaign_id).state is CampaignState.STOPPED
    database.close()

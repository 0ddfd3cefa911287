"""A baseline that comes to nothing: begun once more where that may help, and the campaign ends where not.

Jobs are recorded as a worker does; the words of the failures are those of the job's own limits.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from configs.errors import AutoinferError
from db import queue
from db.models import Campaign, Experiment
from db.session import Database
from db.states import CampaignState, ExperimentState
from experiments.job.result import Failure, JobResult, StageRecord
from experiments.job.spec import parse_job
from experiments.measurement.evidence import Stage
from experiments.worker.claiming import Taken
from experiments.worker.reporting import Reporter
from experiments.worker.settings import WorkerTimes
from tests.simulated.by_hand import BEGAN, LEASE_S
from tests.simulated.campaign import start
from tests.simulated.turn_by_turn import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    database, campaign_id = start(tmp_path)
    yield Bench(database, campaign_id)
    database.close()


def hang_in(database: Database, stage: Stage) -> None:
    """End the baseline that waits as where its launches hang in that stage."""
    with database.write() as session:
        claimed = queue.claim(session, "by hand", "here/cpu", ("cpu",), LEASE_S)
    assert claimed is not None
    hung = Failure("timed_out", f"The stage {stage.value} took longer than its limit of 30 min.")
    swept = (StageRecord(Stage.SWEEP, BEGAN, 60.0, "done"),) if stage is Stage.NOISE else ()
    result = JobResult(stages=(*swept, StageRecord(stage, BEGAN, 1800.0, "timed_out")), failure=hung)
    reporter = Reporter(database, Taken(claimed, f"job{claimed.id}"), WorkerTimes(lease_s=LEASE_S), 0)
    reporter.record(parse_job(claimed.spec), result)


def test_a_baseline_that_hangs_in_its_noise_stage_is_begun_once_more(bench: Bench) -> None:
    """The sweep timed the same configuration a moment before, within the same limit."""
    waits = []

    def look() -> None:
        waits.append([job.experiment_id for job in bench.jobs()])

    bench.drive(lambda: hang_in(bench.database, Stage.NOISE), bench.nothing, look)
    assert waits == [[2]]
    with bench.database.read() as session:
        first = session.get_one(Experiment, 1)
        assert (first.state, first.failure_kind) == (ExperimentState.FAILED, "timed_out")


def test_one_that_hangs_there_twice_ends_the_campaign_with_the_cause(bench: Bench) -> None:
    def hang() -> None:
        hang_in(bench.database, Stage.NOISE)

    with pytest.raises(AutoinferError, match=r"The stage noise took longer .*: autoinfer show E-0002 --log"):
        bench.drive(hang, bench.nothing, hang, bench.nothing)
    with bench.database.read() as session:
        assert session.get_one(Campaign, bench.campaign_id).state is CampaignState.STOPPED
        assert len(session.scalars(select(Experiment.id)).all()) == 2


def test_a_sweep_of_which_nothing_runs_in_time_is_not_begun_again(bench: Bench) -> None:
    """It left out what hung, so all of it is slow or hangs, and would again."""
    with pytest.raises(AutoinferError, match="The stage sweep took longer"):
        bench.drive(lambda: hang_in(bench.database, Stage.SWEEP), bench.nothing)

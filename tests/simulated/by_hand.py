"""A campaign's steps without processes: jobs are claimed and recorded as a worker does, with given launches.

The database, the queue, the recording and the learning are the real ones.
"""

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.known.facts import Facts, Queued
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.learn_baseline import learn_baseline
from agent.campaign.queue.dispatch import dispatch_baseline
from agent.ground.legal import legal_here
from db import queue
from db.models import Hypothesis, Job
from db.session import Database
from db.states import HypothesisState
from experiments.engines.port import PartTime
from experiments.job.result import Failure, JobResult, StageRecord
from experiments.job.spec import BaselineJob, TestJob, parse_job
from experiments.measurement.evidence import Arm, LaunchRecord, Metric, Sample, Stage
from experiments.space.configuration import Configuration
from experiments.space.space import Space
from experiments.worker.claiming import Taken
from experiments.worker.reporting import Reporter
from experiments.worker.settings import WorkerTimes

LEASE_S = 60.0
BEGAN = "2026-11-21T12:00:00+00:00"
BLOCKS = 4


def launch(
    arm: Arm, configuration: Configuration, tpot_ms: float, index: int = 0, stage: Stage = Stage.QUICK
) -> LaunchRecord:
    """One launch of quiet blocks: two requests a block, within a thousandth of `tpot_ms`."""
    samples = tuple(
        Sample(
            block=block,
            position=(0, 3)[block % 2] + 4 * (block // 2)
            if arm is Arm.CONTROL
            else 1 + block % 2 + 4 * (block // 2),
            item=f"p{2 * block + k}",
            seq=2 * block + k,
            metric=metric,
            value=factor * tpot_ms * (1 + 0.001 * ((block + k + index) % 3 - 1)),
        )
        for block in range(BLOCKS)
        for k in range(2)
        for metric, factor in ((Metric.TPOT_MS, 1.0), (Metric.TTFT_MS, 2.0))
    )
    return LaunchRecord(arm, index, stage, configuration.digest, {"engine": "simulated"}, {}, 1.0, samples)


def run_by_hand(
    database: Database,
    experiment_id: int,
    launches: Callable[[TestJob], Sequence[LaunchRecord]],
    failure: Failure | None = None,
) -> None:
    """Claim the experiment's job and record these launches, as the worker does when a job ends."""
    _record(
        database,
        experiment_id,
        lambda spec: JobResult(launches=tuple(launches(_test(spec))), failure=failure),
    )


def measure_baseline(
    database: Database,
    campaign_id: int,
    tpot_ms: float = 10.0,
    stages: Sequence[StageRecord] = (),
    profile: Sequence[PartTime] = (),
) -> Configuration:
    """Dispatch, record and learn trial 0: the space's default, at `tpot_ms`, with these stages and parts."""
    return measure_sweep(
        database,
        campaign_id,
        lambda space: {space.configuration({}): tpot_ms},
        stages=stages,
        profile=profile,
    )


def measure_sweep(
    database: Database,
    campaign_id: int,
    sweep: Callable[[Space], Mapping[Configuration, float]],
    later_ms: float | None = None,
    stages: Sequence[StageRecord] = (),
    profile: Sequence[PartTime] = (),
    fresh: Callable[[LaunchRecord], LaunchRecord] = lambda quiet: quiet,
) -> Configuration:
    """Dispatch, record and learn trial 0: the best of what `sweep` says of TPOT in ms, which is returned.

    Its fresh launches after the sweep take `later_ms`, and are what `fresh` makes of quiet ones; without,
    there are none.
    """
    with database.write() as session:
        facts = read_facts(session, campaign_id)
        space = legal_here(facts.spec, facts.checkpoint, facts.cores).space
        experiment_id = dispatch_baseline(session, facts, space)
    found = sweep(space)
    chosen = min(found, key=lambda each: found[each])
    swept = [
        launch(Arm.CONTROL, each, ms, index, Stage.SWEEP) for index, (each, ms) in enumerate(found.items())
    ]
    later = [] if later_ms is None else [(index, later_ms) for index in range(2)]
    alone = [fresh(launch(Arm.CONTROL, chosen, ms, index, Stage.NOISE)) for index, ms in later]

    def result(spec: BaselineJob | TestJob) -> JobResult:
        return JobResult(
            launches=(*swept, *alone),
            stages=(StageRecord(Stage.SWEEP, BEGAN, 1.0, "done"), *stages),
            profile=tuple(profile),
            chosen=dict(chosen),
        )

    _record(database, experiment_id, result)
    with database.write() as session:
        learn_baseline(session, experiment_id)
    return chosen


def waiting(session: Session, campaign_id: int) -> tuple[Facts, tuple[Queued, ...]]:
    """The campaign's facts and its queue."""
    facts = read_facts(session, campaign_id)
    return facts, facts.queue


def state_of(session: Session, hypothesis_id: int) -> HypothesisState:
    return session.scalars(select(Hypothesis.state).where(Hypothesis.id == hypothesis_id)).one()


def _record(
    database: Database, experiment_id: int, result: Callable[[BaselineJob | TestJob], JobResult]
) -> None:
    with database.write() as session:
        device = session.scalars(select(Job.device_class).where(Job.experiment_id == experiment_id)).one()
        job = queue.claim(session, "by hand", f"here/{device}", (device,), LEASE_S)
    assert job is not None
    assert job.experiment_id == experiment_id
    spec = parse_job(job.spec)
    assert isinstance(spec, BaselineJob | TestJob)
    Reporter(database, Taken(job, f"job{job.id}"), WorkerTimes(lease_s=LEASE_S), 0).record(spec, result(spec))


def _test(spec: BaselineJob | TestJob) -> TestJob:
    assert isinstance(spec, TestJob)
    return spec

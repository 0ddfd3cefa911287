"""What loads, requests and experiments took before, on a target, a model and an engine; reads only."""

from __future__ import annotations

from statistics import median

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from agent.plan.load_and_request import Stored
from agent.plan.stored_builds import measured_builds
from agent.surrogate.timed_kernels import TimedKernels
from configs.campaign_plan import WorkloadSpec
from db.models import Campaign, Experiment, Launch, Measurement, StageRun
from db.states import Arm, ExperimentKind, ExperimentState
from experiments.engines.kernel_timings import KernelTimings
from experiments.job.kernel_timing import TIMINGS
from experiments.measurement.evidence import Metric, Stage
from experiments.measurement.plan import Workload

MOST_ROWS = 200
"""The newest of each that are looked at."""

MOST_TIMINGS = 5
"""The same of timings of kernels, one of which is wanted: some may have failed."""


ASKED = ("concurrency", "prompt_tokens", "new_tokens")
"""Fields of a workload by which the time of a request goes."""


def stored_times(
    session: Session,
    target_key: str,
    fingerprint: str | None,
    engine: str,
    workload: WorkloadSpec | Workload,
) -> Stored:
    """Medians of what is stored; loads of other models where there are none of this one (`fingerprint` None:
    a model that is not here). Requests and experiments are those of campaigns that asked for as many at once
    of the same lengths."""
    ours = (Campaign.target == target_key, Campaign.spec["engine"].as_string() == engine)
    exact = (*ours, Campaign.model_fingerprint == fingerprint)
    loads = _loads(session, exact)
    same_model = bool(loads)
    loads = loads or _loads(session, ours)
    asked = (*exact, *_asks(workload))
    baselines = _walls(session, asked, ExperimentKind.BASELINE, without=Stage.KERNELS)
    tests = _walls(session, asked, ExperimentKind.TEST, without=Stage.FURTHER)
    return Stored(
        load_s=median(loads) if loads else None,
        loads=len(loads),
        same_model=same_model,
        ttft_ms=_timed(session, asked, Metric.TTFT_MS),
        tpot_ms=_timed(session, asked, Metric.TPOT_MS),
        baseline_s=median(baselines) if baselines else None,
        baselines=len(baselines),
        test_s=median(tests) if tests else None,
        tests=len(tests),
        timed=_timed_kernels(session, exact),
        built_s={} if fingerprint is None else measured_builds(session, fingerprint),
    )


def _asks(workload: WorkloadSpec | Workload) -> tuple[ColumnElement[bool], ...]:
    """That a campaign has as many requests at once, of the same lengths."""
    stored = Campaign.spec["plan"]["workload"]
    return tuple(stored[each].as_integer() == getattr(workload, each) for each in ASKED)


def _timed_kernels(session: Session, of: tuple[ColumnElement[bool], ...]) -> TimedKernels | None:
    """The newest timing of kernels alone; None where none came to anything."""
    query = (
        select(StageRun.detail)
        .join(Experiment, StageRun.experiment_id == Experiment.id)
        .join(Campaign, Experiment.campaign_id == Campaign.id)
        .where(*of, Experiment.kind == ExperimentKind.BASELINE, StageRun.stage == Stage.KERNELS.value)
        .order_by(StageRun.id.desc())
        .limit(MOST_TIMINGS)
    )
    for detail in session.scalars(query):
        data = (detail or {}).get(TIMINGS)
        if isinstance(data, dict):
            return TimedKernels(KernelTimings.of_data(data))
    return None


def _loads(session: Session, of: tuple[ColumnElement[bool], ...]) -> list[float]:
    query = (
        select(Launch.load_s)
        .join(Experiment, Launch.experiment_id == Experiment.id)
        .join(Campaign, Experiment.campaign_id == Campaign.id)
        .where(*of, Launch.load_s.is_not(None), Launch.stage != Stage.FURTHER.value)
        .order_by(Launch.id.desc())
        .limit(MOST_ROWS)
    )
    return [each for each in session.scalars(query) if each is not None]


def _walls(
    session: Session,
    of: tuple[ColumnElement[bool], ...],
    kind: ExperimentKind,
    without: Stage,
) -> list[float]:
    """Seconds of experiments of a kind, less those of the stage `without`."""
    stage_s = (
        select(func.coalesce(func.sum(StageRun.wall_s), 0.0))
        .where(StageRun.experiment_id == Experiment.id, StageRun.stage == without.value)
        .correlate(Experiment)
        .scalar_subquery()
    )
    query = (
        select(Experiment.wall_s - stage_s)
        .join(Campaign, Experiment.campaign_id == Campaign.id)
        .where(
            *of,
            Experiment.kind == kind,
            Experiment.state == ExperimentState.DONE,
            Experiment.wall_s.is_not(None),
        )
        .order_by(Experiment.id.desc())
        .limit(MOST_ROWS)
    )
    return [each for each in session.scalars(query) if each is not None]


def _timed(session: Session, of: tuple[ColumnElement[bool], ...], metric: Metric) -> float | None:
    """The median of a metric over the newest control launches."""
    launches = (
        select(Launch.id)
        .join(Experiment, Launch.experiment_id == Experiment.id)
        .join(Campaign, Experiment.campaign_id == Campaign.id)
        .where(*of, Launch.arm == Arm.CONTROL, Launch.stage != Stage.FURTHER.value)
        .order_by(Launch.id.desc())
        .limit(MOST_ROWS)
    )
    newest = list(session.scalars(launches))
    query = select(Measurement.value).where(
        Measurement.launch_id.in_(newest), Measurement.metric == metric.value
    )
    found = list(session.scalars(query))
    return median(found) if found else None

"""One experiment, down to its samples: what leads every number of it back to where it came from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from db.labels import Noun, format_label
from db.models import (
    Configuration,
    Environment,
    Experiment,
    Hypothesis,
    Job,
    Launch,
    Measurement,
    Verdict,
)
from db.models.base import JsonObject
from db.states import Arm
from experiments.measurement.evidence import Metric
from experiments.sealing import tampered
from knowledge.queries.discovery import LevelView, level_of
from knowledge.queries.experiments import ExperimentRow, experiment_row
from knowledge.queries.resolved import DifferenceView, resolved_differences
from knowledge.queries.spread import SpreadView, spread
from knowledge.queries.stages import ArtifactView, StageView, artifacts_of, stages_of
from knowledge.queries.verdicts import VerdictView, verdict_view
from knowledge.queries.view import View
from knowledge.stored import metric_of


class LaunchView(View):
    """A fresh process that served one arm, and the spread of what it gave."""

    arm: Arm
    index: int
    stage: str
    attempt: int
    configuration: str
    load_s: float | None
    started_at: datetime
    environment: str
    spreads: tuple[SpreadView, ...]


class SampleView(View):
    """One raw sample, with its place."""

    arm: Arm
    launch: int
    stage: str
    block: int
    position: int
    item: str
    seq: int
    metric: str
    unit: str
    value: float


class ExperimentDetail(ExperimentRow):
    """Everything about one experiment; `samples` is filled when they were asked for.

    `level` is that of its test in the campaign's online control, `changed_since_sealed` what was altered
    since it was preregistered.
    """

    rationale: str | None
    refuted_if: str | None
    control: JsonObject
    candidate: JsonObject | None
    plan: JsonObject
    metric: str
    preregistration_digest: str | None
    changed_since_sealed: str | None
    level: LevelView | None
    verdict: VerdictView | None
    launches: tuple[LaunchView, ...]
    resolved_differences: tuple[DifferenceView, ...]
    environments: dict[str, JsonObject]
    stages: tuple[StageView, ...]
    artifacts: tuple[ArtifactView, ...]
    versions: JsonObject | None
    reproduced_by: tuple[str, ...]
    reproduce_command: str
    samples: tuple[SampleView, ...] | None


def experiment_detail(session: Session, experiment_id: int, *, samples: bool = False) -> ExperimentDetail:
    """Return everything about one experiment, which must exist; with `samples` the raw ones too."""
    control, candidate = aliased(Configuration), aliased(Configuration)
    row = session.execute(
        select(Experiment, Hypothesis, Verdict, control.knobs, candidate.knobs)
        .join(control, control.id == Experiment.control_configuration_id)
        .outerjoin(candidate, candidate.id == Experiment.candidate_configuration_id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(Experiment.id == experiment_id)
    ).one()
    experiment, hypothesis, verdict, control_knobs, candidate_knobs = row
    launches = session.execute(
        select(Launch, Configuration.digest, Environment.data)
        .join(Configuration, Configuration.id == Launch.configuration_id)
        .join(Environment, Environment.digest == Launch.environment_digest)
        .where(Launch.experiment_id == experiment_id)
        .order_by(Launch.attempt, Launch.index, (Launch.arm == Arm.CONTROL).desc(), Launch.id)
    ).all()
    taken = _measurements(session, experiment_id, with_itl=samples)
    by_launch: dict[int, list[Measurement]] = defaultdict(list)
    for measurement in taken:
        by_launch[measurement.launch_id].append(measurement)
    label = format_label(Noun.EXPERIMENT, experiment_id)
    short = experiment_row(
        experiment, None if hypothesis is None else hypothesis.claim, verdict, control_knobs, candidate_knobs
    )
    return ExperimentDetail(
        **short.model_dump(),
        rationale=None if hypothesis is None else hypothesis.rationale,
        refuted_if=None if hypothesis is None else hypothesis.refuted_if,
        control=control_knobs,
        candidate=candidate_knobs,
        plan=experiment.plan,
        metric=metric_of(experiment.plan),
        preregistration_digest=experiment.preregistration_digest,
        changed_since_sealed=_changed(session, experiment),
        level=level_of(session, experiment, _details(verdict)),
        verdict=None if verdict is None else verdict_view(verdict),
        launches=tuple(
            _launch_view(each.Launch, each.digest, by_launch[each.Launch.id]) for each in launches
        ),
        resolved_differences=resolved_differences(
            [(each.Launch.arm, each.Launch.resolved) for each in launches]
        ),
        environments={each.Launch.environment_digest: each.data for each in launches},
        stages=stages_of(session, experiment_id),
        artifacts=artifacts_of(session, experiment_id),
        versions=experiment.versions,
        reproduced_by=_reproductions(session, experiment_id),
        reproduce_command=f"autoinfer reproduce {label}",
        samples=_samples([each.Launch for each in launches], by_launch) if samples else None,
    )


def _changed(session: Session, experiment: Experiment) -> str | None:
    """What of a test was altered since it was sealed; None too where no job is left to hold it against."""
    if experiment.candidate_configuration_id is None or experiment.preregistration_digest is None:
        return None
    job = session.scalar(select(Job.id).where(Job.experiment_id == experiment.id).limit(1))
    return None if job is None else tampered(session, experiment)


def _details(verdict: Verdict | None) -> Mapping[str, object]:
    details = None if verdict is None else verdict.judge.get("details")
    return details if isinstance(details, dict) else {}


def _measurements(session: Session, experiment_id: int, *, with_itl: bool) -> Sequence[Measurement]:
    query = (
        select(Measurement)
        .join(Launch, Launch.id == Measurement.launch_id)
        .where(Launch.experiment_id == experiment_id)
        .order_by(Measurement.launch_id, Measurement.seq, Measurement.id)
    )
    if not with_itl:  # one value a token: by far the most, and TPOT sums them up
        query = query.where(Measurement.metric != Metric.ITL_MS.value)
    return session.scalars(query).all()


def _launch_view(launch: Launch, configuration: str, taken: Sequence[Measurement]) -> LaunchView:
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for measurement in taken:
        values[measurement.metric, measurement.unit].append(measurement.value)
    return LaunchView(
        arm=launch.arm,
        index=launch.index,
        stage=launch.stage,
        attempt=launch.attempt,
        configuration=configuration,
        load_s=launch.load_s,
        started_at=launch.started_at,
        environment=launch.environment_digest,
        spreads=tuple(spread(metric, unit, found) for (metric, unit), found in sorted(values.items())),
    )


def _samples(
    launches: Sequence[Launch], by_launch: Mapping[int, Sequence[Measurement]]
) -> tuple[SampleView, ...]:
    return tuple(
        SampleView(
            arm=launch.arm,
            launch=launch.index,
            stage=launch.stage,
            block=each.block,
            position=each.position,
            item=each.item,
            seq=each.seq,
            metric=each.metric,
            unit=each.unit,
            value=each.value,
        )
        for launch in launches
        for each in by_launch[launch.id]
    )


def _reproductions(session: Session, experiment_id: int) -> tuple[str, ...]:
    query = (
        select(Experiment.id)
        .where(Experiment.reproduces_experiment_id == experiment_id)
        .order_by(Experiment.id)
    )
    return tuple(format_label(Noun.EXPERIMENT, number) for number in session.scalars(query))

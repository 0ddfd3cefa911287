"""From a job's result to rows and back: what was measured, by what, with what, and how noisy the control was.

Everything here works inside the caller's session; the worker calls `record_result` in the transaction that
ends the job, so that a result is stored once or not at all. `load_evidence` gives the judge what it saw
while the job ran, so that a verdict can be computed again from the database alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime

from pydantic import ValidationError
from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from configs.errors import AutoinferError
from db.clock import now
from db.content import put_configuration, put_environment
from db.labels import Noun, format_label
from db.models import (
    Artifact,
    Configuration,
    Environment,
    Experiment,
    ExperimentArtifact,
    Job,
    JsonObject,
    Launch,
    NoiseLaunch,
    StageRun,
)
from db.samples import Sample as StoredSample
from db.samples import insert_samples, read_samples
from db.states import Arm as StoredArm
from db.states import StageOutcome
from experiments.job.result import ArtifactRecord, JobResult, StageRecord, measured_s
from experiments.job.spec import AaJob, BaselineJob, ExperimentJob, TestJob, parse_job
from experiments.measurement.evidence import (
    TEXTS_KEY,
    TIMED_METRICS,
    Arm,
    Evidence,
    Json,
    LaunchRecord,
    Metric,
    NoiseProfile,
    Sample,
    Stage,
)
from experiments.measurement.noise import NoiseRow, launch_noise, noise_key, noise_profile
from experiments.measurement.plan import StoppingPlan
from experiments.space.configuration import Configuration as Point

NOISE_STAGES = (Stage.NOISE, Stage.QUICK, Stage.FULL, Stage.VALIDATION)
"""Stages whose control launches tell how much launches vary; a sweep has one launch a configuration."""


DEVICE_MEMORY = "device_memory"
"""Where the detail of a job's last stage has what its launches held of a GPU, as `HeldMemory`."""


def record_result(
    session: Session, experiment_id: int, attempt: int, spec: ExperimentJob, result: JobResult
) -> int:
    """Write everything a job measured under its experiment and return how many noise launches it added.

    Anything recorded under the same attempt before would break a constraint; the caller's fence excludes
    that.
    """
    target = session.execute(select(Experiment.target).where(Experiment.id == experiment_id)).scalar_one()
    points = {
        point.digest: point for point in (*_points(spec), *map(Point.of, result.configurations.values()))
    }
    ids = {
        digest: put_configuration(session, digest, dict(points[digest]))
        for digest in sorted({each.configuration_digest for each in (*result.launches, *result.further)})
    }
    for launch in (*result.launches, *result.further):
        _record_launch(session, experiment_id, attempt, ids[launch.configuration_digest], launch)
    for number, stage in enumerate(result.stages):
        _record_stage(session, experiment_id, attempt, stage, _outcome_detail(result, number))
    record_artifacts(session, result, experiment_id)
    versions = next((each.resolved.get("versions") for each in result.launches), None)
    if not result.launches and result.failure is not None:
        versions = dict(result.failure.versions) or None
    if isinstance(versions, dict):
        session.execute(update(Experiment).where(Experiment.id == experiment_id).values(versions=versions))
    told = () if isinstance(spec, AaJob) and result.failure is not None else result.launches
    return _record_noise(session, experiment_id, attempt, target, spec, ids, told)


def record_artifacts(session: Session, result: JobResult, experiment_id: int | None = None) -> None:
    """Write down the artifacts that a job built or used, and that its experiment has them, where it is of
    one."""
    for artifact in result.artifacts:
        _record_artifact(session, artifact)
        place = {"experiment_id": experiment_id, "artifact_digest": artifact.digest}
        if experiment_id is not None and session.get(ExperimentArtifact, tuple(place.values())) is None:
            session.execute(insert(ExperimentArtifact).values(**place))


def load_evidence(session: Session, experiment_id: int) -> tuple[StoppingPlan, Evidence]:
    """Return the frozen plan of a test and all that its judge could look at, from the rows of its recorded
    attempt.

    Raises `AutoinferError` when the experiment has no job that tests a hypothesis.
    """
    spec = load_test_spec(session, experiment_id)
    experiment = session.get_one(Experiment, experiment_id)
    control, candidate = Point.of(spec.control), Point.of(spec.candidate)
    noise = NoiseProfile(
        spec.noise.target_key,
        spec.plan.metric,
        spec.noise.launches,
        spec.noise.degrees_of_freedom,
        spec.noise.launch_sd_log,
    )
    return spec.plan, Evidence(
        launches=load_launches(session, experiment_id),
        noise=noise,
        changes=control.changes_to(candidate),
        failure=experiment.failure,
        pinned_keys=spec.pinned_keys,
        in_turn=spec.in_turn,
        measured_s=measured_s(load_stages(session, experiment_id)),
    )


def load_test_spec(session: Session, experiment_id: int) -> TestJob:
    """Return the job of a test as it is stored.

    Raises `AutoinferError` when the experiment has no job that tests a hypothesis, or one that is malformed.
    """
    query = select(Job.spec).where(Job.experiment_id == experiment_id).order_by(Job.id.desc()).limit(1)
    data = session.execute(query).scalar_one_or_none()
    label = format_label(Noun.EXPERIMENT, experiment_id)
    if data is None:
        raise AutoinferError(f"{label} has no job.", "There is nothing to judge in it.")
    try:
        spec = parse_job(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise AutoinferError(
            f"The stored job of {label} is malformed at {where}: {first['msg']}.",
            "It can't be judged; test the hypothesis again.",
        ) from None
    if not isinstance(spec, TestJob):
        raise AutoinferError(f"{label} is no test of a hypothesis.", "There is nothing to judge in it.")
    return spec


def load_launches(session: Session, experiment_id: int) -> tuple[LaunchRecord, ...]:
    """Return the launches of an experiment with their samples, in the order they were opened; without what
    was measured in them of further workloads."""
    rows = session.execute(
        select(Launch, Configuration.digest, Environment.data)
        .join(Configuration, Configuration.id == Launch.configuration_id)
        .join(Environment, Environment.digest == Launch.environment_digest)
        .where(Launch.experiment_id == experiment_id, Launch.stage != Stage.FURTHER.value)
        .order_by(Launch.id)
    ).all()
    return tuple(
        LaunchRecord(
            Arm(launch.arm.value),
            launch.index,
            Stage(launch.stage),
            digest,
            launch.resolved,
            environment,
            launch.load_s or 0.0,
            tuple(
                Sample(each.block, each.position, each.item, each.seq, Metric(each.metric), each.value)
                for each in read_samples(session, launch.id)
            ),
        )
        for launch, digest, environment in rows
    )


def texts_of(session: Session, experiment_id: int) -> str | None:
    """The fingerprint of the texts that an experiment was measured with; None where it does not tell it."""
    environment = session.scalar(
        select(Environment.data)
        .join(Launch, Launch.environment_digest == Environment.digest)
        .where(Launch.experiment_id == experiment_id)
        .order_by(Launch.id)
        .limit(1)
    )
    machine = None if environment is None else environment.get("machine")
    told = machine.get(TEXTS_KEY) if isinstance(machine, dict) else None
    return told if isinstance(told, str) else None


def load_noise(session: Session, target_key: str, model_fingerprint: str, metric: Metric) -> NoiseProfile:
    """Return the noise profile of a target and model from all launches recorded for it."""
    rows = session.execute(
        select(NoiseLaunch.window, NoiseLaunch.log_centre).where(
            NoiseLaunch.target_key == target_key,
            NoiseLaunch.model_fingerprint == model_fingerprint,
            NoiseLaunch.metric == metric.value,
        )
    )
    return noise_profile(target_key, metric, [NoiseRow(window, log_centre) for window, log_centre in rows])


def load_stages(session: Session, experiment_id: int) -> tuple[StageRecord, ...]:
    """Return the stages that ran, in their order; a sweep's detail holds `chosen`, a profile's `parts`."""
    rows = session.execute(
        select(StageRun).where(StageRun.experiment_id == experiment_id).order_by(StageRun.id)
    ).scalars()
    return tuple(
        StageRecord(
            Stage(row.stage),
            row.started_at.isoformat(),
            row.wall_s or 0.0,
            row.outcome.value if row.outcome else "",
            row.detail or {},
            row.log_path,
        )
        for row in rows
    )


def _points(spec: ExperimentJob) -> Iterable[Point]:
    if isinstance(spec, BaselineJob):
        return map(Point.of, (*spec.sweep, spec.naive))
    if isinstance(spec, AaJob):
        return (Point.of(spec.configuration),)
    reference = () if spec.reference is None else (spec.reference,)
    return map(Point.of, (spec.control, spec.candidate, *reference))


def _record_launch(
    session: Session, experiment_id: int, attempt: int, configuration: int, launch: LaunchRecord
) -> None:
    row = insert(Launch).values(
        experiment_id=experiment_id,
        attempt=attempt,
        arm=StoredArm(launch.arm.value),
        index=launch.index,
        stage=launch.stage.value,
        configuration_id=configuration,
        resolved=dict(launch.resolved),
        environment_digest=_environment(session, launch.environment),
        load_s=launch.load_s,
    )
    launch_id = session.execute(row.returning(Launch.id)).scalar_one()
    insert_samples(
        session,
        launch_id,
        (
            StoredSample(
                sample.block,
                sample.position,
                sample.item,
                sample.seq,
                sample.metric.value,
                sample.metric.unit,
                sample.value,
            )
            for sample in launch.samples
        ),
    )


def _environment(session: Session, data: Mapping[str, Json]) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return put_environment(session, hashlib.sha256(text.encode()).hexdigest(), dict(data))


def _outcome_detail(result: JobResult, number: int) -> JsonObject:
    """The detail of a stage, with what the job chose or profiled put where it was found, and what it held of
    a GPU, which is known at its end, with the last one."""
    stage = result.stages[number]
    detail: JsonObject = dict(stage.detail)
    if stage.stage is Stage.SWEEP and result.chosen is not None:
        detail["chosen"] = dict(result.chosen)
    if stage.stage is Stage.PROFILE and result.profile:
        detail["parts"] = [asdict(part) for part in result.profile]
    if result.memory is not None and number == len(result.stages) - 1:
        detail[DEVICE_MEMORY] = asdict(result.memory)
    return detail


def _record_stage(
    session: Session, experiment_id: int, attempt: int, stage: StageRecord, detail: JsonObject
) -> None:
    session.execute(
        insert(StageRun).values(
            experiment_id=experiment_id,
            attempt=attempt,
            stage=stage.stage.value,
            started_at=datetime.fromisoformat(stage.started_at),
            wall_s=stage.wall_s,
            outcome=StageOutcome(stage.outcome),
            detail=detail,
            log_path=stage.log,
        )
    )


def _record_artifact(session: Session, artifact: ArtifactRecord) -> None:
    known = update(Artifact).where(Artifact.digest == artifact.digest)
    used = known.values(last_used_at=now(), path=artifact.path).returning(Artifact.digest)
    if session.execute(used).scalar_one_or_none() is None:
        session.execute(
            insert(Artifact).values(
                digest=artifact.digest,
                kind=artifact.kind,
                inputs=dict(artifact.inputs),
                tool_versions=dict(artifact.tool_versions),
                path=artifact.path,
                bytes=artifact.bytes,
                build_s=artifact.build_s,
            )
        )


def _record_noise(
    session: Session,
    experiment_id: int,
    attempt: int,
    target_key: str,
    spec: ExperimentJob,
    ids: Mapping[str, int],
    launches: Iterable[LaunchRecord],
) -> int:
    metric = spec.plan.metric if isinstance(spec, TestJob) else spec.metric
    if metric not in TIMED_METRICS:
        return 0  # nothing was timed; what was scored tells nothing of how launches vary
    if isinstance(spec, AaJob) and not spec.as_tests_run:
        return 0  # measured to see what a disturbance does, not how launches vary where there is none
    workload = spec.plan.workload if isinstance(spec, TestJob) else spec.workload
    target_key = noise_key(target_key, in_turn=spec.in_turn, asked_over=workload.asked_over)
    arms = frozenset(Arm) if isinstance(spec, AaJob) else frozenset({Arm.CONTROL})
    window = f"{format_label(Noun.EXPERIMENT, experiment_id)}/{attempt}"
    rows = []
    for launch in launches:
        noise = launch_noise(launch, metric)
        if launch.arm in arms and launch.stage in NOISE_STAGES and noise is not None:
            rows.append(
                {
                    "target_key": target_key,
                    "model_fingerprint": spec.model_fingerprint,
                    "configuration_id": ids[launch.configuration_digest],
                    "window": window,
                    "experiment_id": experiment_id,
                    "metric": metric.value,
                    "log_centre": noise.log_centre,
                    "log_sd_within": noise.log_sd,
                    "samples": noise.samples,
                }
            )
    if rows:
        session.execute(insert(NoiseLaunch), rows)
    return len(rows)

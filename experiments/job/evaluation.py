"""Quality of an arm: the reference's evaluation is an artifact, the candidate is scored against it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.artifacts.key import ArtifactKey
from experiments.artifacts.stored import StoredArtifact
from experiments.engines.port import DECODE_ITEM_PREFIX as DECODE_ITEM_PREFIX
from experiments.engines.port import DocumentScore, ScoringDocument, ScoringTask, TaskScore, no_numbers
from experiments.job.checkpoints import prepare_checkpoint, record_artifact
from experiments.job.drafter_identity import drafter_identity
from experiments.job.drafting import check_drafting
from experiments.job.launching import launches
from experiments.job.open_launch import OpenLaunch, Wanted
from experiments.job.running_job import RunningJob
from experiments.job.spec import AnyJob, TestJob
from experiments.job.task_answers import graded_answers, task_identity
from experiments.measurement.drafting_due import METHOD, is_drafting
from experiments.measurement.evidence import EVALUATION_KEY, SCORED_METRICS, Arm, Json, Metric, Stage
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration

EVALUATION_KIND = "evaluation"
"""Kind of the artifact that holds the scores and token distributions of a reference."""

DISTRIBUTIONS_NAME = "distributions"
SCORES_NAME = "scores.json"
ANSWERS_NAME = "answers.jsonl"
"""What the reference answered to quality tasks, an item a line; there where it was asked any."""

DRAFTED_SCORING = 2
"""Counted up when scores of what drafts come out otherwise than before, so that kept ones are scored anew."""

WEIGHTS_ITEM = "weights"
"""The item of a sample that tells bytes of weights."""

Values = list[tuple[str, Metric, float]]
"""Quality samples: item, metric, value."""


@dataclass(frozen=True)
class ReferenceEvaluation:
    """The evaluation of a reference, as stored or scored anew; candidates are compared with the stored
    `distributions`."""

    artifact: StoredArtifact
    distributions: Path
    resolved: Mapping[str, Json]
    machine: Mapping[str, Json]
    load_s: float
    values: Values


def quality_values(documents: Sequence[DocumentScore], tasks: Sequence[TaskScore]) -> Values:
    """Return the quality samples of scores: bits, bytes, KL and agreement a document, 0 or 1 an item.

    A document `decode:…` went through the timed path (see the engine); its agreement is also told apart.
    Raises `Infeasible` as `finite`.
    """
    values: Values = []
    for score in documents:
        values += [
            (score.item, Metric.NLL_BITS, score.nll_bits),
            (score.item, Metric.TEXT_BYTES, float(score.text_bytes)),
        ]
        if score.kl_nats is not None:
            values.append((score.item, Metric.KL_NATS, score.kl_nats))
        if score.top1_agreement is not None:
            values.append((score.item, Metric.TOP1_AGREEMENT, score.top1_agreement))
            if score.item.startswith(DECODE_ITEM_PREFIX):
                values.append((score.item, Metric.DECODE_AGREEMENT, score.top1_agreement))
    values += [(task.item, Metric.TASK_CORRECT, float(task.correct)) for task in tasks]
    return finite(values)


def finite(values: Values) -> Values:
    """The same. Raises `Infeasible`, kind `no_numbers`, where one is not a finite number: such a model can't
    be scored, and no store keeps the score."""
    for item, metric, value in values:
        if not math.isfinite(value):
            raise no_numbers(f"{metric.value} of {item}", value)
    return values


def weight_values(resolved: Mapping[str, Json]) -> Values:
    """Return the bytes of weights that a step reads, as a launch told them; nothing where it did not."""
    weights = resolved.get("weights")
    told = resolved.get("step_weight_bytes")
    if told is None and isinstance(weights, dict):
        told = weights.get("step_weight_bytes")
    if isinstance(told, bool) or not isinstance(told, int | float):
        return []
    return [(WEIGHTS_ITEM, Metric.STEP_WEIGHT_BYTES, float(told))]


def evaluate_reference(
    job: RunningJob,
    configuration: Configuration,
    workload: Workload,
    up: Callable[[], OpenLaunch | None] = lambda: None,
    part: int = 0,
) -> ReferenceEvaluation:
    """Return the evaluation of `configuration` on a part of the material, from the store or by scoring it.

    `up` is asked for a launch of it when there is nothing to reuse; without one a fresh launch is started. A
    reproduction of a claim that is scored scores it anew, whatever is kept of it; what candidates are
    compared with token by token stays the kept distributions.
    """
    checkpoint, parents = prepare_checkpoint(job, configuration)
    key = ArtifactKey(
        EVALUATION_KIND,
        {
            "configuration": dict(configuration),
            "device": job.spec.device.partition(":")[0],
            "engine": job.spec.engine,
            "material": dict(job.context.material.identity(workload, part)),
            "model": job.spec.model_fingerprint,
            **_elsewhere(job.spec),
            **task_identity(job, workload, part),
            **({"drafted_scoring": DRAFTED_SCORING} if is_drafting(configuration.get(METHOD)) else {}),
            **drafter_identity(configuration),
        },
        parents,
        job.context.tool_versions,
    )

    def scored(write_reference: Path | None) -> dict[str, Any]:
        if (launch := up()) is not None:
            return _reference_scores(job, launch, workload, part, write_reference)
        wanted = Wanted(Arm.CONTROL, part, configuration, checkpoint)
        with launches(job, Stage.EVALUATE, [wanted]) as [launch]:
            return _reference_scores(job, launch, workload, part, write_reference)

    def build(folder: Path) -> None:
        told = scored(folder / DISTRIBUTIONS_NAME)
        if lines := told.pop("answers"):
            (folder / ANSWERS_NAME).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        (folder / SCORES_NAME).write_text(json.dumps(told))

    artifact = job.context.artifacts.build(key, build)
    record_artifact(job, artifact)
    anew = _reproduces_scores(job.spec) and not artifact.built
    told = scored(None) if anew else json.loads((artifact.path / SCORES_NAME).read_bytes())
    return ReferenceEvaluation(
        artifact,
        artifact.path / DISTRIBUTIONS_NAME,
        told["resolved"],
        told["machine"],
        told["load_s"],
        finite([(item, Metric(metric), value) for item, metric, value in told["values"]]),
    )


def _elsewhere(spec: AnyJob) -> dict[str, Json]:
    """The target of a job that left its campaign's: another GPU rounds otherwise, so what a candidate is
    compared with there is scored there."""
    return {"target": spec.target} if isinstance(spec, TestJob) and spec.target is not None else {}


def _reproduces_scores(spec: AnyJob) -> bool:
    """Whether the job runs a claim again that rests on scores alone: kept ones would only agree with
    themselves."""
    return (
        isinstance(spec, TestJob)
        and spec.reproduces_experiment_id is not None
        and spec.plan.metric in SCORED_METRICS
    )


def record_reference(
    job: RunningJob,
    configuration: Configuration,
    evaluation: ReferenceEvaluation,
    stage: Stage = Stage.EVALUATE,
    *,
    part: int = 0,
    is_control: bool = True,
) -> None:
    """Record the reference's quality under arm control, scored now or reused.

    Its bytes of weights are told only where the reference is the control itself: they stand for that arm.
    """
    number = job.records.launch(
        Arm.CONTROL,
        part,
        stage,
        configuration.digest,
        evaluation.resolved,
        {**evaluation.machine, EVALUATION_KEY: evaluation.artifact.digest},
        evaluation.load_s,
    )
    values = evaluation.values + (weight_values(evaluation.resolved) if is_control else [])
    job.records.block(number, 0, 0, _rows(values), {}, {})


def evaluate_candidate(
    job: RunningJob,
    candidate: Wanted,
    workload: Workload,
    distributions: Path,
    up: OpenLaunch | None = None,
    stage: Stage = Stage.EVALUATE,
    *,
    part: int = 0,
    drafting: bool = False,
    refuted: Callable[[], bool] = lambda: False,
) -> None:
    """Score the candidate against the reference's distributions and record it under `stage`.

    `up` is a launch of it that may be used; without one a fresh launch is started. Documents come first, then
    instruction items, then quality tasks, which a screen leaves out; what has `refuted` the candidate ends
    it. With `drafting` the same launch then checks
    its drafting.
    """
    if up is None:
        with launches(job, stage, [candidate]) as [launch]:
            _score_candidate(
                job, launch, launch.number, workload, stage, part, distributions, drafting, refuted
            )
        return
    number = job.records.launch(
        Arm.CANDIDATE,
        candidate.index,
        stage,
        candidate.configuration.digest,
        up.resolved(),
        job.context.material.machine(),
        up.launch.load_s,
    )
    _score_candidate(job, up, number, workload, stage, part, distributions, drafting, refuted)


def weigh(job: RunningJob, stage: Stage, wanted: Wanted) -> None:
    """Start a launch to learn what weights a step of it reads, and record that; nothing is scored."""
    with launches(job, stage, [wanted]) as [launch]:
        job.records.block(launch.number, 0, 0, _rows(weight_values(launch.resolved())), {}, {})


def _score_candidate(
    job: RunningJob,
    launch: OpenLaunch,
    number: int,
    workload: Workload,
    stage: Stage,
    part: int,
    distributions: Path,
    drafting: bool,
    refuted: Callable[[], bool],
) -> None:
    material = job.context.material
    documents, tasks = material.documents(workload, part), material.tasks(workload, part)
    parts: tuple[tuple[Sequence[ScoringDocument], Sequence[ScoringTask]], ...]
    parts = ((documents, ()), ((), tasks)) if documents and tasks else ((documents, tasks),)
    scored = 0
    for block, (some_documents, some_tasks) in enumerate(parts):
        before = material.moment()
        scores = launch.score(some_documents, some_tasks, reference=distributions)
        values = quality_values(*scores)
        if not block:
            values += weight_values(launch.resolved())
        job.records.block(number, block, 0, _rows(values, scored), before, material.moment())
        scored += len(values)
        more = block + 1 < len(parts) or bool(workload.evaluation_tasks)
        if more and refuted():
            return
    if workload.evaluation_tasks and stage is not Stage.SCREEN:
        before = material.moment()
        values = quality_values((), graded_answers(job, launch, workload, part).scores)
        job.records.block(number, len(parts), 0, _rows(values, scored), before, material.moment())
    if drafting:
        check_drafting(job, launch, number, workload)


def _rows(values: Values, first: int = 0) -> list[tuple[str, int, Metric, float]]:
    return [(item, seq, metric, value) for seq, (item, metric, value) in enumerate(values, first)]


def _reference_scores(
    job: RunningJob, launch: OpenLaunch, workload: Workload, part: int, write_reference: Path | None
) -> dict[str, Any]:
    """What is stored of a reference, as JSON data; `write_reference` keeps its distributions."""
    material = job.context.material
    scores = launch.score(
        material.documents(workload, part), material.tasks(workload, part), write_reference=write_reference
    )
    answers = graded_answers(job, launch, workload, part)
    values = [*quality_values(*scores), *quality_values((), answers.scores)]
    return {
        "resolved": dict(launch.resolved()),
        "machine": dict(material.machine()),
        "load_s": launch.launch.load_s,
        "values": [[item, metric.value, value] for item, metric, value in values],
        "answers": list(answers.lines),
    }

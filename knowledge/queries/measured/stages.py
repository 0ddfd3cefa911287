"""The stages of an experiment and the artifacts that it built or used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Artifact, ExperimentArtifact, StageRun
from db.models.base import JsonObject
from db.states import StageOutcome
from experiments.measurement.evidence import NOT_UP, UNCHECKED, Stage
from knowledge.queries.view import View
from knowledge.stored import number


class StageView(View):
    """A run of a stage; `wall_s` in seconds."""

    stage: str
    attempt: int
    started_at: datetime
    wall_s: float | None
    outcome: StageOutcome | None
    detail: JsonObject | None
    log_path: str | None

    @property
    def sentences(self) -> tuple[str, ...]:
        """What a check could not look at, and which launches did not do their work beside others and why."""
        told = [(self.detail or {}).get(name) for name in (UNCHECKED, NOT_UP)]
        return tuple(
            each for some in told if isinstance(some, list) for each in some if isinstance(each, str)
        )


class ArtifactView(View):
    """An artifact, as the database knows it."""

    digest: str
    kind: str
    inputs: JsonObject
    tool_versions: JsonObject
    path: str
    bytes: int
    build_s: float
    created_at: datetime
    last_used_at: datetime


def stages_of(session: Session, experiment_id: int, only: Stage | None = None) -> tuple[StageView, ...]:
    """Return the runs of stages of an experiment, in order; of one stage where it is named."""
    query = select(StageRun).where(StageRun.experiment_id == experiment_id).order_by(StageRun.id)
    if only is not None:
        query = query.where(StageRun.stage == only.value)
    return tuple(
        StageView(
            stage=each.stage,
            attempt=each.attempt,
            started_at=each.started_at,
            wall_s=each.wall_s,
            outcome=each.outcome,
            detail=each.detail,
            log_path=each.log_path,
        )
        for each in session.scalars(query)
    )


def artifacts_of(session: Session, experiment_id: int) -> tuple[ArtifactView, ...]:
    """Return the artifacts of an experiment, oldest first."""
    query = (
        select(Artifact)
        .join(ExperimentArtifact, ExperimentArtifact.artifact_digest == Artifact.digest)
        .where(ExperimentArtifact.experiment_id == experiment_id)
        .order_by(Artifact.created_at, Artifact.digest)
    )
    return tuple(artifact_view(each) for each in session.scalars(query))


class RankCorrelation(View):
    """How far two rankings of the same layers agree; intervals where they are known."""

    criterion: str
    ranked_on: str
    layers: int
    documents: int
    spearman: float | None
    spearman_low: float | None
    spearman_high: float | None
    kendall: float | None
    kendall_low: float | None
    kendall_high: float | None
    confidence: float | None
    conditional_on: str | None


class StageReport(View):
    """What a stage that makes checkpoints told, as far as it is shown: `recipe` in words, and by part the
    bytes of weights that a decode step reads of what it wrote (empty where it told none)."""

    stage: str
    artifact: str
    recipe: str
    bits_per_weight: float | None = None
    step_bytes_by_part: Mapping[str, int] = {}
    corpus: str | None = None
    corpus_fingerprint: str | None = None
    removed_layers: tuple[int, ...] = ()
    rank_correlation: RankCorrelation | None = None


def stage_reports(session: Session, experiments: Sequence[int]) -> dict[int, tuple[StageReport, ...]]:
    """Return what the stages of experiments told, by experiment, each artifact once."""
    query = (
        select(StageRun.experiment_id, StageRun.stage, StageRun.detail)
        .where(StageRun.experiment_id.in_(experiments))
        .order_by(StageRun.id)
    )
    found: dict[int, dict[str, StageReport]] = defaultdict(dict)
    for experiment_id, stage, detail in session.execute(query):
        report = stage_report(stage, detail or {})
        if report is not None:
            found[experiment_id].setdefault(report.artifact, report)
    return {number_: tuple(reports.values()) for number_, reports in found.items()}


def stage_report(stage: str, detail: Mapping[str, Any]) -> StageReport | None:
    """Return what a stage's detail tells; None where it made no checkpoint or told nothing."""
    report, artifact = detail.get("report"), detail.get("artifact")
    if not isinstance(report, dict) or not isinstance(artifact, str):
        return None
    corpus = _object(report.get("corpus"))
    removed = report.get("removed")
    return StageReport(
        stage=stage,
        artifact=artifact,
        recipe=_recipe(stage, report),
        bits_per_weight=number(report.get("bits_per_weight")),
        step_bytes_by_part={
            part: count
            for part, count in _object(_object(report.get("step_bytes_by_part")).get("after")).items()
            if isinstance(count, int)
        },
        corpus=_text(corpus.get("described")),
        corpus_fingerprint=_text(corpus.get("fingerprint")),
        removed_layers=tuple(each for each in removed if isinstance(each, int))
        if isinstance(removed, list)
        else (),
        rank_correlation=_rank_correlation(report),
    )


def _rank_correlation(report: Mapping[str, Any]) -> RankCorrelation | None:
    told = report.get("rank_correlation")
    if not isinstance(told, dict):
        return None
    spearman, kendall = _object(told.get("spearman")), _object(told.get("kendall"))
    return RankCorrelation(
        criterion=str(report.get("criterion", "unknown")),
        ranked_on=str(report.get("ranked_on", "unknown")),
        layers=int(number(told.get("layers")) or 0),
        documents=int(number(told.get("documents")) or 0),
        spearman=number(spearman.get("value")),
        spearman_low=number(spearman.get("low")),
        spearman_high=number(spearman.get("high")),
        kendall=number(kendall.get("value")),
        kendall_low=number(kendall.get("low")),
        kendall_high=number(kendall.get("high")),
        confidence=number(told.get("confidence")),
        conditional_on=_text(told.get("conditional_on")),
    )


def _recipe(stage: str, report: Mapping[str, Any]) -> str:
    if stage == "prune":
        return f"{report.get('criterion')} on the {report.get('ranked_on')} model"
    recipe = _object(report.get("recipe"))
    return ", ".join(f"{name}={value}" for name, value in recipe.items()) or stage


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def artifact_view(artifact: Artifact) -> ArtifactView:
    """Return the view of a stored artifact."""
    return ArtifactView(
        digest=artifact.digest,
        kind=artifact.kind,
        inputs=artifact.inputs,
        tool_versions=artifact.tool_versions,
        path=artifact.path,
        bytes=artifact.bytes,
        build_s=artifact.build_s,
        created_at=artifact.created_at,
        last_used_at=artifact.last_used_at,
    )

"""How far a ranking of layers carries from the original to the quantized model: a finding of its own.

A stage that prunes by the ranking of a quantized model ranks the original beside it, and reports how far the
two agree (`experiments.stages.pruning.rank_correlation`). That is measured, not judged: no verdict decides
it, so it stands as a finding with its interval, once for each criterion and quantized model, and every
experiment that used it is linked to it. It claims nothing of other models, quantizations or kinds of text.
"""

from __future__ import annotations

import hashlib

from sqlalchemy import select
from sqlalchemy.orm import Session

from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Artifact, Campaign, Experiment, Finding, FindingEvidence, Verdict
from db.states import EvidenceRelation, FindingStatus
from experiments.measurement.evidence import Json
from experiments.space.configuration import Configuration
from knowledge.findings.rules import Strength
from knowledge.queries.measured.stages import StageReport, stage_reports
from knowledge.scope import Scope
from knowledge.stored import engine_of
from knowledge.telling.answers import rank_words

RULE = "R7-rank-transfer"
"""What derived such a finding."""

KNOBS = ("pruning.criterion", "pruning.ranked_on", "quantization.method")
"""Knobs that it has to do with, by which a note can make it stale."""

LEVER = "pruning+quantization"

_KEY_DIGITS = 16


def update_rank_transfer(session: Session, verdict_id: int) -> tuple[int, ...]:
    """Make findings of the rank correlations that the verdict's experiment reported; returns those that are
    new.

    Calling it twice changes nothing more. Appends an event for each new finding.
    """
    verdict = session.get_one(Verdict, verdict_id)
    experiment = session.get_one(Experiment, verdict.experiment_id)
    added = []
    for report in stage_reports(session, [experiment.id]).get(experiment.id, ()):
        if report.rank_correlation is None or report.rank_correlation.spearman is None:
            continue
        quantized = _quantized(session, report)
        key = _key(report, quantized)
        finding = session.scalars(select(Finding).where(Finding.key == key)).first()
        if finding is None:
            finding = _add(session, key, report, quantized, experiment)
            added.append(finding.id)
        if session.get(FindingEvidence, (finding.id, verdict_id)) is None:
            session.add(
                FindingEvidence(
                    finding_id=finding.id, verdict_id=verdict_id, relation=EvidenceRelation.INFORMS
                )
            )
            session.flush()
    return tuple(added)


def _add(
    session: Session, key: str, report: StageReport, quantized: list[Artifact], experiment: Experiment
) -> Finding:
    assert report.rank_correlation is not None
    campaign = session.get_one(Campaign, experiment.campaign_id)
    scope = Scope.of(
        model=campaign.model,
        model_fingerprint=campaign.model_fingerprint,
        target=experiment.target,
        engine=engine_of(campaign.spec),
        versions=experiment.versions or {},
        workload={},
        control=Configuration.of({}),
    )
    recipes = [_recipe(artifact) for artifact in quantized]
    how = f" ({'; '.join(recipes)})" if any(recipes) else ""
    words = rank_words(report.rank_correlation)
    stored: dict[str, Json] = {
        **scope.as_json((), LEVER, 0.0),
        "metric": "rank_correlation",
        "knobs": list(KNOBS),
        "rank_correlation": report.rank_correlation.model_dump(mode="json"),
        "artifact": report.artifact,
        "quantized": [artifact.digest for artifact in quantized],
    }
    finding = Finding(
        campaign_id=campaign.id,
        key=key,
        claim=f"{words[0].upper()}{words[1:]}{how} {scope.sentence()}.",
        scope=stored,
        strength=Strength.SINGLE.value,
        status=FindingStatus.HOLDS,
        rule=RULE,
    )
    session.add(finding)
    session.flush()
    events.append(
        session,
        EventKind.FINDING_ADDED,
        f"{words[0].upper()}{words[1:]}.",
        format_label(Noun.FINDING, finding.id),
        campaign.id,
        {"rule": RULE, "strength": finding.strength, "status": finding.status.value, "supersedes": []},
    )
    return finding


def _quantized(session: Session, report: StageReport) -> list[Artifact]:
    """The quantized checkpoints that the pruning stage looked at, by its artifact's parents."""
    artifact = session.get(Artifact, report.artifact)
    parents = [] if artifact is None else artifact.inputs.get("parents", [])
    rows = session.scalars(select(Artifact).where(Artifact.digest.in_(parents)).order_by(Artifact.digest))
    return [row for row in rows if row.inputs.get("stage") == "quantize"]


def _recipe(artifact: Artifact) -> str:
    recipe = artifact.inputs.get("recipe")
    return ", ".join(f"{name}={value}" for name, value in recipe.items()) if isinstance(recipe, dict) else ""


def _key(report: StageReport, quantized: list[Artifact]) -> str:
    """The same for the same criterion on the same quantized models, whichever layers went then."""
    assert report.rank_correlation is not None
    between = [artifact.digest for artifact in quantized] or [report.artifact]
    text = "\n".join([report.rank_correlation.criterion, *between])
    digest = hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]
    return f"rank_correlation: {report.rank_correlation.criterion} #{digest}"

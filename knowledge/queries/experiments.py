"""The list of experiments."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from db.labels import Noun, format_label
from db.models import Configuration, Experiment, Hypothesis, Verdict
from db.models.base import JsonObject
from db.states import ExperimentKind, ExperimentState, VerdictOutcome
from knowledge.queries.view import ChangeView, EffectView, Page, View, changes_between, verdict_effect


class ExperimentRow(View):
    """An experiment as one line; `wall_s` in seconds."""

    id: str
    campaign: str
    hypothesis: str | None
    claim: str | None
    kind: ExperimentKind
    state: ExperimentState
    stage: str | None
    progress: JsonObject | None
    target: str
    change: tuple[ChangeView, ...]
    outcome: VerdictOutcome | None
    effect: EffectView | None
    reason: str | None
    failure_kind: str | None
    failure: str | None
    reproduces: str | None
    wall_s: float | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


def list_experiments(
    session: Session,
    *,
    campaign_id: int | None = None,
    states: Collection[ExperimentState] = (),
    outcomes: Collection[VerdictOutcome] = (),
    limit: int,
    offset: int = 0,
) -> Page[ExperimentRow]:
    """Return experiments, newest first."""
    control, candidate = aliased(Configuration), aliased(Configuration)
    query = (
        select(Experiment, Hypothesis.claim, Verdict, control.knobs, candidate.knobs)
        .join(control, control.id == Experiment.control_configuration_id)
        .outerjoin(candidate, candidate.id == Experiment.candidate_configuration_id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
    )
    counted = select(func.count()).select_from(Experiment)
    conditions = []
    if campaign_id is not None:
        conditions.append(Experiment.campaign_id == campaign_id)
    if states:
        conditions.append(Experiment.state.in_(list(states)))
    if outcomes:
        counted = counted.join(Verdict, Verdict.experiment_id == Experiment.id)
        conditions.append(Verdict.outcome.in_(list(outcomes)))
    total = session.scalar(counted.where(*conditions)) or 0
    query = query.where(*conditions).order_by(Experiment.id.desc()).limit(limit).offset(offset)
    rows = [experiment_row(*row) for row in session.execute(query)]
    return Page[ExperimentRow](items=tuple(rows), total=total, limit=limit, offset=offset)


def experiment_row(
    experiment: Experiment,
    claim: str | None,
    verdict: Verdict | None,
    control: JsonObject,
    candidate: JsonObject | None,
) -> ExperimentRow:
    """Return the row of an experiment from what its query gave."""
    return ExperimentRow(
        id=format_label(Noun.EXPERIMENT, experiment.id),
        campaign=format_label(Noun.CAMPAIGN, experiment.campaign_id),
        hypothesis=_optional(Noun.HYPOTHESIS, experiment.hypothesis_id),
        claim=claim,
        kind=experiment.kind,
        state=experiment.state,
        stage=experiment.stage,
        progress=experiment.progress,
        target=experiment.target,
        change=changes_between(control, candidate),
        outcome=None if verdict is None else verdict.outcome,
        effect=None if verdict is None else verdict_effect(verdict),
        reason=None if verdict is None else verdict.reason,
        failure_kind=experiment.failure_kind,
        failure=experiment.failure,
        reproduces=_optional(Noun.EXPERIMENT, experiment.reproduces_experiment_id),
        wall_s=experiment.wall_s,
        created_at=experiment.created_at,
        started_at=experiment.started_at,
        finished_at=experiment.finished_at,
    )


def _optional(noun: Noun, number: int | None) -> str | None:
    return None if number is None else format_label(noun, number)

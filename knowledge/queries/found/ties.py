"""Experiments that confirm another on a second target, and the findings that they tie together.

Ties are made from the verdicts at each look and stored nowhere, so that they always say what those say.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session, aliased

from db.labels import Noun, format_label
from db.models import Experiment, Finding, FindingEvidence, Job, Verdict
from db.states import EvidenceRelation, ExperimentKind, ExperimentState, VerdictOutcome
from knowledge.findings.ties import Side, Tie, tie_between
from knowledge.queries.view import EffectView, View, verdict_effect
from knowledge.stored import quality_held, verdict_metric

_FIRST, _SECOND = aliased(Experiment), aliased(Experiment)
_FIRST_VERDICT, _SECOND_VERDICT = aliased(Verdict), aliased(Verdict)


class TieView(View):
    """An experiment on another target and the one that it confirms, from the side of one of them: `other` is
    the other's label, `target` the other's target, and `is_second` says whether this one confirms the other.

    `relation` is what the second says of the first, None where it says nothing or nothing yet.
    """

    experiment: str
    other: str
    target: str
    asked: str | None
    is_second: bool
    state: ExperimentState
    outcome: VerdictOutcome | None
    effect: EffectView | None
    relation: EvidenceRelation | None
    reason: str | None


class FindingTieView(View):
    """A finding of another target, and what ties it to this one: `relation` is what the finding of the
    second experiment says of that of the first, `is_second` whether this one is of the second."""

    id: str
    claim: str
    target: str
    is_second: bool
    relation: EvidenceRelation
    reason: str


def side_of(experiment: Experiment, verdict: Verdict) -> Side:
    """A verdict as ties are made of it."""
    return Side(
        format_label(Noun.EXPERIMENT, experiment.id),
        experiment.target,
        verdict.outcome,
        verdict_metric(verdict),
        verdict.effect_log,
        verdict.interval_low_log,
        verdict.interval_high_log,
        quality_held(verdict.quality) is False,
    )


def ties_of_experiments(session: Session, experiments: Collection[int]) -> tuple[TieView, ...]:
    """Return what ties these experiments to others on other targets, oldest first; two statements."""
    if not experiments:
        return ()
    rows = _rows(session, or_(_FIRST.id.in_(experiments), _SECOND.id.in_(experiments)))
    asked = _asked(session, [second.id for _, second, _, _ in rows])
    found = []
    for first, second, before, after in rows:
        tie = _tie(first, second, before, after)
        for this, other, verdict in ((first, second, after), (second, first, before)):
            if this.id in experiments:
                found.append(
                    TieView(
                        experiment=format_label(Noun.EXPERIMENT, this.id),
                        other=format_label(Noun.EXPERIMENT, other.id),
                        target=other.target,
                        asked=asked.get(second.id),
                        is_second=this is second,
                        state=other.state,
                        outcome=None if verdict is None else verdict.outcome,
                        effect=None if verdict is None else verdict_effect(verdict),
                        relation=None if tie is None else tie.relation,
                        reason=None if tie is None else tie.reason,
                    )
                )
    return tuple(found)


def ties_of_findings(session: Session, findings: Collection[int]) -> dict[int, tuple[FindingTieView, ...]]:
    """Return, by finding, the findings of other targets that it is tied to; three statements."""
    if not findings:
        return {}
    here = select(Verdict.experiment_id).join(FindingEvidence, FindingEvidence.verdict_id == Verdict.id)
    mine = here.where(FindingEvidence.finding_id.in_(findings))
    rows = _rows(session, or_(_FIRST.id.in_(mine), _SECOND.id.in_(mine)))
    if not rows:
        return {}
    of = _findings_of(session, [verdict.id for row in rows for verdict in row[2:] if verdict is not None])
    found: dict[int, dict[int, FindingTieView]] = {}
    for first, second, before, after in rows:
        tie = _tie(first, second, before, after)
        if tie is None or tie.relation is None or before is None or after is None:
            continue
        for older in of.get(before.id, ()):
            for newer in of.get(after.id, ()):
                for this, other, is_second in ((older, newer, False), (newer, older, True)):
                    if older.id != newer.id and this.id in findings:
                        found.setdefault(this.id, {})[other.id] = FindingTieView(
                            id=format_label(Noun.FINDING, other.id),
                            claim=other.claim,
                            target=str(other.scope.get("target", "")),
                            is_second=is_second,
                            relation=tie.relation,
                            reason=tie.reason,
                        )
    return {number: tuple(ties.values()) for number, ties in found.items()}


def experiment_relations(session: Session, experiments: Collection[int] | None) -> dict[int, Tie]:
    """Return, by the second experiment, what it says of the first; of all there are where None is given."""
    rows = _rows(session, *(() if experiments is None else (_SECOND.id.in_(experiments),)))
    found = ((second.id, _tie(first, second, before, after)) for first, second, before, after in rows)
    return {number: tie for number, tie in found if tie is not None}


def _rows(session: Session, *conditions: ColumnElement[bool]) -> list[Any]:
    """Pairs of experiments with their verdicts, the first and then what confirms it elsewhere."""
    query = (
        select(_FIRST, _SECOND, _FIRST_VERDICT, _SECOND_VERDICT)
        .join(_SECOND, _SECOND.reproduces_experiment_id == _FIRST.id)
        .outerjoin(_FIRST_VERDICT, _FIRST_VERDICT.experiment_id == _FIRST.id)
        .outerjoin(_SECOND_VERDICT, _SECOND_VERDICT.experiment_id == _SECOND.id)
        .where(_SECOND.kind == ExperimentKind.PROMOTE, *conditions)
        .order_by(_SECOND.id)
    )
    return list(session.execute(query))


def _tie(first: Experiment, second: Experiment, before: Verdict | None, after: Verdict | None) -> Tie | None:
    if before is None or after is None:
        return None
    return tie_between(side_of(first, before), side_of(second, after))


def _asked(session: Session, experiments: Collection[int]) -> dict[int, str]:
    """The target that each was asked for, as jobs name it."""
    query = select(Job.experiment_id, Job.device_class).where(Job.experiment_id.in_(experiments))
    return {
        number: device for number, device in session.execute(query.order_by(Job.id)) if number is not None
    }


def _findings_of(session: Session, verdicts: Collection[int]) -> dict[int, list[Finding]]:
    """The findings that each verdict decides something about."""
    query = (
        select(FindingEvidence.verdict_id, Finding)
        .join(Finding, Finding.id == FindingEvidence.finding_id)
        .where(FindingEvidence.verdict_id.in_(verdicts), FindingEvidence.relation != EvidenceRelation.INFORMS)
        .order_by(Finding.id)
    )
    found: dict[int, list[Finding]] = {}
    for verdict_id, finding in session.execute(query):
        found.setdefault(verdict_id, []).append(finding)
    return found

"""Findings: the list, and one with its evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Experiment, Finding, FindingEvidence, Verdict
from db.models.base import JsonObject
from db.states import EvidenceRelation, FindingStatus, VerdictOutcome
from knowledge.queries.ties import FindingTieView, ties_of_findings
from knowledge.queries.view import EffectView, Page, View, effect_view, verdict_effect
from knowledge.stored import metric_of


class EvidenceView(View):
    """What one verdict says about a finding."""

    experiment: str
    hypothesis: str | None
    outcome: VerdictOutcome
    relation: EvidenceRelation
    effect: EffectView | None
    at: datetime


class FindingView(View):
    """A finding with its scope, strength and evidence; `elsewhere` are those of other targets that it is tied
    to."""

    id: str
    campaign: str | None
    claim: str
    status: FindingStatus
    status_reason: str | None
    strength: str
    rule: str
    effect: EffectView | None
    scope: JsonObject
    superseded_by: str | None
    evidence: tuple[EvidenceView, ...]
    elsewhere: tuple[FindingTieView, ...]
    created_at: datetime
    updated_at: datetime


def list_findings(
    session: Session,
    *,
    campaign_id: int | None = None,
    statuses: Collection[FindingStatus] = (),
    limit: int,
    offset: int = 0,
) -> Page[FindingView]:
    """Return findings, the last changed first.

    A finding counts to a campaign when one of its verdicts was reached there.
    """
    conditions = []
    if campaign_id is not None:
        there = (
            select(FindingEvidence.finding_id)
            .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
            .join(Experiment, Experiment.id == Verdict.experiment_id)
            .where(Experiment.campaign_id == campaign_id)
        )
        conditions.append(Finding.id.in_(there))
    if statuses:
        conditions.append(Finding.status.in_(list(statuses)))
    total = session.scalar(select(func.count()).select_from(Finding).where(*conditions)) or 0
    query = select(Finding).where(*conditions).order_by(Finding.updated_at.desc(), Finding.id.desc())
    found = session.scalars(query.limit(limit).offset(offset)).all()
    return Page[FindingView](items=_views(session, found), total=total, limit=limit, offset=offset)


def finding_detail(session: Session, finding_id: int) -> FindingView:
    """Return one finding, which must exist."""
    return _views(session, [session.get_one(Finding, finding_id)])[0]


def _views(session: Session, findings: Sequence[Finding]) -> tuple[FindingView, ...]:
    query = (
        select(FindingEvidence.finding_id, FindingEvidence.relation, Verdict)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .where(FindingEvidence.finding_id.in_([finding.id for finding in findings]))
        .order_by(Verdict.id)
    )
    evidence: dict[int, list[EvidenceView]] = defaultdict(list)
    for finding_id, relation, verdict in session.execute(query):
        evidence[finding_id].append(
            EvidenceView(
                experiment=format_label(Noun.EXPERIMENT, verdict.experiment_id),
                hypothesis=_optional(Noun.HYPOTHESIS, verdict.hypothesis_id),
                outcome=verdict.outcome,
                relation=relation,
                effect=verdict_effect(verdict),
                at=verdict.created_at,
            )
        )
    ties = ties_of_findings(session, [finding.id for finding in findings])
    return tuple(
        FindingView(
            id=format_label(Noun.FINDING, each.id),
            campaign=_optional(Noun.CAMPAIGN, each.campaign_id),
            claim=each.claim,
            status=each.status,
            status_reason=each.status_reason,
            strength=each.strength,
            rule=each.rule,
            effect=effect_view(
                each.effect_log, each.interval_low_log, each.interval_high_log, metric_of(each.scope)
            ),
            scope=each.scope,
            superseded_by=_optional(Noun.FINDING, each.superseded_by_id),
            evidence=tuple(evidence[each.id]),
            elsewhere=ties.get(each.id, ()),
            created_at=each.created_at,
            updated_at=each.updated_at,
        )
        for each in findings
    )


def _optional(noun: Noun, number: int | None) -> str | None:
    return None if number is None else format_label(noun, number)

"""Findings: the list, with what verdicts say about each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session

from configs.authors import author_words
from db.labels import Noun, format_label
from db.models import (
    Experiment,
    Finding,
    FindingEvidence,
    ImportedEvidence,
    ImportedVerdict,
    Verdict,
)
from db.models.base import JsonObject
from db.states import AGREEING, EvidenceRelation, FindingStatus, VerdictOutcome
from knowledge.acts.notes import concerns
from knowledge.doubts import doubt_words
from knowledge.findings.exchange import ToldVerdict
from knowledge.findings.rules import Rule
from knowledge.findings.telling import disputes_of_each
from knowledge.findings.verdict_fact import SAYING
from knowledge.machines import is_called
from knowledge.queries.found.doubts import NO_DOUBT, doubts_of
from knowledge.queries.found.scopes import besides, scope_words
from knowledge.queries.found.ties import FindingTieView, ties_of_findings
from knowledge.queries.view import ChangeView, EffectView, Page, View, effect_view, verdict_effect
from knowledge.stored import TOLD_BY, metric_of
from knowledge.sweep_failures import RULE as SWEEP_RULE
from knowledge.sweep_failures import SWEEP


class EvidenceView(View):
    """What one verdict says about a finding; `origin` names the database that an imported one comes from, and
    its labels are those of that database."""

    campaign: str
    experiment: str
    hypothesis: str | None
    outcome: VerdictOutcome
    relation: EvidenceRelation
    effect: EffectView | None
    at: datetime
    origin: str | None = None

    @property
    def named(self) -> str:
        """The experiment as it is called here: an imported one with where it comes from."""
        return self.experiment if self.origin is None else f"{self.experiment} of {self.origin}"


class FindingView(View):
    """A finding with its scope, strength and evidence; `elsewhere` are those of other targets that it is tied
    to. `says_so` and `says_not` count the campaigns whose verdicts agree and disagree with its first: each
    but that of the first is an independent replication, which a rerun in one campaign is not. `place` is the
    scope in a line, `beside` what its control has that tells it from findings which would read alike;
    `disputed_by` are findings that disagree, `differing` the newest fresh runs that differ from the supported
    tests on which it rests."""

    id: str
    campaign: str | None
    claim: str
    status: FindingStatus
    status_reason: str | None
    strength: str
    rule: str
    effect: EffectView | None
    scope: JsonObject
    place: str
    beside: str | None
    superseded_by: str | None
    evidence: tuple[EvidenceView, ...]
    says_so: int
    says_not: int
    elsewhere: tuple[FindingTieView, ...]
    disputed_by: tuple[str, ...]
    differing: tuple[str, ...]
    created_at: datetime
    updated_at: datetime

    @property
    def doubt(self) -> str | None:
        """What speaks against it beside its own verdicts, as a clause; None where nothing does."""
        return doubt_words(self.disputed_by, self.differing)

    @property
    def says(self) -> str | None:
        """What it says of the change, such as `it does not help`; None where its verdicts disagree."""
        found = self.scope.get(SAYING)
        return None if found is None else f"it {found}"

    @property
    def change(self) -> tuple[ChangeView, ...]:
        """The knobs that it is about; one that was written down says what they are set to alone."""
        return tuple(ChangeView.model_validate(each) for each in self.scope.get("change") or ())

    @property
    def written_by(self) -> str | None:
        """Who wrote it down, `you` for the user; None where it was measured."""
        if self.rule != Rule.TOLD:
            return None
        return author_words(str(self.scope.get(TOLD_BY) or "you"))

    @property
    def sweep(self) -> str | None:
        """The label of the experiment whose sweep could not run what it is about; None of any other."""
        found = self.scope.get(SWEEP)
        return None if found is None else str(found)


def list_findings(
    session: Session,
    *,
    campaign_id: int | None = None,
    statuses: Collection[FindingStatus] = (),
    about: str | None = None,
    target: str | None = None,
    disputed: bool = False,
    limit: int,
    offset: int = 0,
) -> Page[FindingView]:
    """Return findings, the last changed first.

    A finding counts to a campaign when one of its verdicts was reached there, or its sweep made it. `about`
    is a lever, a knob or its group, or a part of the scope (`knowledge.acts.notes.concerns`); `target` a part
    of the target's name; `disputed`: those alone that others, or their own verdicts, dispute now.
    """
    conditions: list[ColumnElement[bool]] = []
    if campaign_id is not None:
        there = (
            select(FindingEvidence.finding_id)
            .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
            .join(Experiment, Experiment.id == Verdict.experiment_id)
            .where(Experiment.campaign_id == campaign_id)
        )
        swept = and_(Finding.rule == SWEEP_RULE, Finding.campaign_id == campaign_id)
        conditions.append(or_(Finding.id.in_(there), swept))
    if statuses:
        conditions.append(Finding.status.in_(list(statuses)))
    if about is not None or target is not None:
        conditions.append(Finding.id.in_(_concerned(session, conditions, about, target)))
    if disputed:
        standing = session.scalars(select(Finding).where(*conditions)).all()
        conditions.append(Finding.id.in_(disputes_of_each(session, standing)))
    total = session.scalar(select(func.count()).select_from(Finding).where(*conditions)) or 0
    query = select(Finding).where(*conditions).order_by(Finding.updated_at.desc(), Finding.id.desc())
    found = session.scalars(query.limit(limit).offset(offset)).all()
    return Page[FindingView](items=_views(session, found), total=total, limit=limit, offset=offset)


def _concerned(
    session: Session, conditions: Sequence[ColumnElement[bool]], about: str | None, target: str | None
) -> list[int]:
    """The ids of the findings that have to do with both, None of them with anything."""
    rows = session.execute(select(Finding.id, Finding.scope).where(*conditions))
    return [
        number
        for number, scope in rows
        if (about is None or concerns(scope, about))
        and (target is None or is_called(str(scope.get("target", "")), target))
    ]


def _views(session: Session, findings: Sequence[Finding]) -> tuple[FindingView, ...]:
    return tuple(FindingView(**each) for each in finding_fields(session, findings))


def finding_fields(session: Session, findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return the fields of the views of these findings, in their order."""
    ids = [finding.id for finding in findings]
    evidence = evidence_of(session, ids)
    ties = ties_of_findings(session, ids)
    beside = besides(session, findings)
    doubts = doubts_of(session, findings)
    return [
        {
            "id": format_label(Noun.FINDING, each.id),
            "campaign": _optional(Noun.CAMPAIGN, each.campaign_id),
            "claim": each.claim,
            "status": each.status,
            "status_reason": each.status_reason,
            "strength": each.strength,
            "rule": each.rule,
            "effect": effect_view(
                each.effect_log, each.interval_low_log, each.interval_high_log, metric_of(each.scope)
            ),
            "scope": each.scope,
            "place": scope_words(each.scope),
            "beside": beside.get(each.id),
            "superseded_by": _optional(Noun.FINDING, each.superseded_by_id),
            "evidence": tuple(evidence[each.id]),
            "says_so": _campaigns(evidence[each.id], AGREEING),
            "says_not": _campaigns(evidence[each.id], {EvidenceRelation.CONTRADICTS}),
            "elsewhere": ties.get(each.id, ()),
            "disputed_by": doubts.get(each.id, NO_DOUBT).disputed_by,
            "differing": doubts.get(each.id, NO_DOUBT).differing,
            "created_at": each.created_at,
            "updated_at": each.updated_at,
        }
        for each in findings
    ]


def evidence_of(session: Session, findings: Collection[int]) -> dict[int, list[EvidenceView]]:
    """Return what verdicts say about each of these findings, those of this database first; two statements."""
    query = (
        select(FindingEvidence.finding_id, FindingEvidence.relation, Verdict, Experiment.campaign_id)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(FindingEvidence.finding_id.in_(findings))
        .order_by(Verdict.id)
    )
    found: dict[int, list[EvidenceView]] = defaultdict(list)
    for finding_id, relation, verdict, campaign_id in session.execute(query):
        found[finding_id].append(
            EvidenceView(
                campaign=format_label(Noun.CAMPAIGN, campaign_id),
                experiment=format_label(Noun.EXPERIMENT, verdict.experiment_id),
                hypothesis=_optional(Noun.HYPOTHESIS, verdict.hypothesis_id),
                outcome=verdict.outcome,
                relation=relation,
                effect=verdict_effect(verdict),
                at=verdict.created_at,
            )
        )
    imported = (
        select(ImportedEvidence.finding_id, ImportedEvidence.relation, ImportedVerdict)
        .join(ImportedVerdict, ImportedVerdict.id == ImportedEvidence.imported_verdict_id)
        .where(ImportedEvidence.finding_id.in_(findings))
        .order_by(ImportedVerdict.id)
    )
    for finding_id, relation, row in session.execute(imported):
        told = ToldVerdict.model_validate(row.told)
        found[finding_id].append(
            EvidenceView(
                campaign=f"{told.campaign} of {row.origin}",
                experiment=told.experiment,
                hypothesis=None,
                outcome=told.outcome,
                relation=relation,
                effect=effect_view(told.effect_log, told.low_log, told.high_log, told.metric.value),
                at=row.created_at,
                origin=row.origin,
            )
        )
    return found


def _campaigns(evidence: Sequence[EvidenceView], relations: Collection[EvidenceRelation]) -> int:
    return len({each.campaign for each in evidence if each.relation in relations})


def _optional(noun: Noun, number: int | None) -> str | None:
    return None if number is None else format_label(noun, number)

"""What the check of a recipe says of the findings that it rests on: stale where it fails, confirmed where it
holds.

A check measures the whole of a recipe, so one that fails does not tell which of its changes no longer helps:
none of them should be acted on before it was tested again. A check that holds takes that back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Finding, FindingEvidence, Verdict
from db.states import AGREEING, FindingStatus
from knowledge.findings.facts import facts_of_finding
from knowledge.findings.rules import derive
from knowledge.findings.staleness import StaleCause


def holding(session: Session, experiments: Collection[int]) -> tuple[Finding, ...]:
    """The findings that these experiments' verdicts support and that hold."""
    return tuple(each for each in _resting_on(session, experiments) if each.status is FindingStatus.HOLDS)


def stale_after_check(session: Session, held: Sequence[Finding], said: str) -> tuple[str, ...]:
    """Mark the findings that held before a check, and on which what it checked rests, as stale, with an event
    each; their labels.

    On other versions the check's own verdict has made some of them stale already, or has superseded them:
    these keep that and its cause, and what is stale tells of the check too.
    """
    for finding in held:
        if finding.status is FindingStatus.SUPERSEDED:
            continue
        before = "" if finding.status is FindingStatus.HOLDS else f"{finding.status_reason or ''} "
        if finding.status is FindingStatus.HOLDS:
            finding.status, finding.stale_cause = FindingStatus.STALE, StaleCause.CHECK.value
        finding.status_reason = f"{before}A recipe that rests on it failed its check. {said}"
        _tell(session, finding, f"is stale: {finding.status_reason}")
    return tuple(_label(each) for each in held)


def confirm_after_check(session: Session, experiments: Collection[int]) -> tuple[str, ...]:
    """Let the findings that a failed check had made stale hold again, with an event each; the labels of all
    that the recipe rests on and that hold."""
    found = _resting_on(session, experiments)
    for finding in found:
        if finding.stale_cause != StaleCause.CHECK:
            continue
        draft = derive(facts_of_finding(session, finding.id))
        finding.status = FindingStatus.HOLDS if draft is None else draft.status
        finding.status_reason, finding.stale_cause = None if draft is None else draft.status_reason, None
        _tell(session, finding, f"{finding.status.value} again: a recipe that rests on it passed its check.")
    return tuple(_label(each) for each in found if each.status is FindingStatus.HOLDS)


def _resting_on(session: Session, experiments: Collection[int]) -> list[Finding]:
    query = (
        select(Finding)
        .join(FindingEvidence, FindingEvidence.finding_id == Finding.id)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .where(
            Verdict.experiment_id.in_(experiments),
            FindingEvidence.relation.in_(AGREEING),
            Finding.superseded_by_id.is_(None),
        )
        .order_by(Finding.id)
    )
    return list(dict.fromkeys(session.scalars(query)))


def _tell(session: Session, finding: Finding, said: str) -> None:
    finding.updated_at = now()
    session.flush()
    data = {"status": finding.status.value, "cause": finding.stale_cause}
    label = _label(finding)
    events.append(session, EventKind.FINDING_CHANGED, f"{label} {said}", label, finding.campaign_id, data)


def _label(finding: Finding) -> str:
    return format_label(Noun.FINDING, finding.id)

"""Disputes found and told: the thin edge of `disputes`."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Event, Finding
from db.states import FindingStatus
from knowledge.findings.disputes import Claim, Dispute, claim_of, disputes_of
from knowledge.findings.rules import Rule

OPEN = (FindingStatus.HOLDS, FindingStatus.CONTRADICTED)
"""States of a finding that may be disputed."""

_LINEAGE_MARK = " #"
"""In a key, between the change on a metric and where it was made."""


def claim(finding: Finding) -> Claim:
    """Return a stored finding as disputes see it."""
    label = format_label(Noun.FINDING, finding.id)
    return claim_of(label, finding.rule, finding.scope, finding.effect_log)


def disputes(session: Session, finding: Finding) -> tuple[Dispute, ...]:
    """Return what disputes a finding now; nothing where it does not stand any more itself."""
    if finding.status not in OPEN:
        return ()
    query = select(Finding).where(Finding.status.in_(OPEN), Finding.id != finding.id)
    if finding.rule != Rule.TOLD:
        change, mark, _ = finding.key.rpartition(_LINEAGE_MARK)
        query = query.where(
            or_(Finding.key.startswith(f"{change}{mark}", autoescape=True), Finding.rule == Rule.TOLD.value)
        )
    others = session.scalars(query.order_by(Finding.id))
    return disputes_of(claim(finding), [claim(each) for each in others])


def tell_disputes(session: Session, findings: Collection[int]) -> None:
    """Append an event for each dispute of these findings that was not told yet."""
    found = [
        (session.get_one(Finding, number), dispute)
        for number in findings
        for dispute in disputes(session, session.get_one(Finding, number))
    ]
    if not found:
        return
    told = select(Event.data).where(Event.kind == EventKind.FINDING_DISPUTED)
    known = {tuple((data or {}).get("findings", ())) for data in session.scalars(told)}
    for finding, dispute in found:
        if dispute.labels in known:
            continue
        known.add(dispute.labels)
        label = format_label(Noun.FINDING, finding.id)
        data = {
            "findings": list(dispute.labels),
            "differences": [
                {"part": each.part.value, "name": each.name, "values": [each.here, each.there]}
                for each in dispute.differences
            ],
        }
        events.append(
            session, EventKind.FINDING_DISPUTED, dispute.question(), label, finding.campaign_id, data
        )

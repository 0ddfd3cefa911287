"""Disputes found and told: the thin edge of `disputes`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from sqlalchemy import func, or_, select
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
    return disputes_of_each(session, [finding]).get(finding.id, ())


def disputes_of_each(session: Session, findings: Sequence[Finding]) -> dict[int, tuple[Dispute, ...]]:
    """Return what disputes each of these findings now, by its id; one statement. Those that nothing disputes
    are left out, and those that do not stand any more themselves."""
    standing = [each for each in findings if each.status in OPEN]
    if not standing:
        return {}
    query = select(Finding).where(Finding.status.in_(OPEN)).order_by(Finding.id)
    begins = [_change(each) for each in standing]
    of_length: dict[int, set[str]] = defaultdict(set)
    for begin in filter(None, begins):
        of_length[len(begin)].add(begin)
    if None not in begins:
        # one condition for each length, since one for each change would be too many
        same = [func.substr(Finding.key, 1, length).in_(begin) for length, begin in sorted(of_length.items())]
        query = query.where(or_(Finding.rule == Rule.TOLD.value, *same))
    others = [(_change(each), claim(each)) for each in session.scalars(query)]
    found = {}
    for each, change in zip(standing, begins, strict=True):
        near = [other for begin, other in others if None in (begin, change) or begin == change]
        if disputed := disputes_of(claim(each), near):
            found[each.id] = disputed
    return found


def _change(finding: Finding) -> str | None:
    """How the keys of findings about this change on this metric begin; None where the key does not tell, as
    of what was told, which may be about any of them."""
    change, mark, _ = finding.key.rpartition(_LINEAGE_MARK)
    return change + mark if mark and finding.rule != Rule.TOLD else None


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

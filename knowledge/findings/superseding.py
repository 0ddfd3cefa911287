"""Findings of one statement on other versions: the newer one supersedes the others.

Which is the newer is said by the versions themselves where they compare, else by when it was measured, never
by when it arrived here. A verdict that is reached here ran with what its target has now: what stands there on
newer versions does not supersede it, and is left to `staleness`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial

from packaging.version import InvalidVersion, Version
from sqlalchemy import select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Finding
from db.states import FindingStatus
from knowledge.findings.facts import facts_of_finding
from knowledge.findings.staleness import is_closed, of_other_versions, says_words, statement_of

_NEVER = datetime.min.replace(tzinfo=UTC)


def newer_by_versions(one: Mapping[str, object], other: Mapping[str, object]) -> int:
    """Return 1 where `one` has the newer versions of what both name, −1 where `other` has, and 0 where that
    does not tell: what differs has no order, or one package is newer here and another there. Pure.

    A local part (`+cu128`) says how a version was built and nothing of its age.
    """
    found = {_compared(str(one[name]), str(other[name])) for name in of_other_versions(one, other)} - {0}
    return found.pop() if len(found) == 1 else 0


def _compared(one: str, other: str) -> int:
    try:
        here, there = (Version(Version(each).public) for each in (one, other))
    except InvalidVersion:
        return 0
    return (here > there) - (here < there)


def supersede(session: Session, finding: Finding, *, is_now: bool) -> tuple[Finding, ...]:
    """Let the newer of a finding and those of its statement on other versions supersede the others; return
    those that `finding` supersedes since.

    `is_now`: its target has its versions now, so that nothing there is newer to it. What is stale supersedes
    nothing: neither one that waits for its versions to come back, nor one that was closed.
    """
    others = _on_other_versions(session, finding)
    measured_at = cache(partial(_measured_at, session))  # each is read once, where it is asked for
    order = {each.id: _newer(measured_at, finding, each) for each in others}
    newer = [each for each in others if order[each.id][0] < 0 and each.status is not FindingStatus.STALE]
    if newer and not is_now:
        first = newer[0]
        for each in newer[1:]:
            first = each if _newer(measured_at, each, first)[0] > 0 else first
        _mark(finding, first, by_versions=order[first.id][1])
        return ()
    finding.superseded_by_id = None
    if finding.status is FindingStatus.STALE and not is_now:
        return ()
    older = [each for each in others if order[each.id][0] > 0]
    for each in older:
        _mark(each, finding, by_versions=order[each.id][1])
    return tuple(older)


def _on_other_versions(session: Session, finding: Finding) -> Sequence[Finding]:
    query = select(Finding).where(
        Finding.key.startswith(statement_of(finding), autoescape=True),
        Finding.id != finding.id,
        Finding.superseded_by_id.is_(None),
    )
    return session.scalars(query.order_by(Finding.id)).all()


def _newer(measured_at: Callable[[int], datetime], one: Finding, other: Finding) -> tuple[int, bool]:
    """Which of two findings is the newer, as `newer_by_versions`, and whether their versions say so; of two
    that were measured at the same time, the one that arrived later."""
    found = newer_by_versions(one.scope.get("versions") or {}, other.scope.get("versions") or {})
    if found:
        return found, True
    here, there = (measured_at(each.id) for each in (one, other))
    return (1 if (here, one.id) > (there, other.id) else -1), False


def _measured_at(session: Session, finding_id: int) -> datetime:
    """When the last verdict behind a finding was reached, wherever that was."""
    found = (each.measured_at for each in facts_of_finding(session, finding_id))
    return max((each for each in found if each is not None), default=_NEVER)


def _mark(older: Finding, newer: Finding, *, by_versions: bool) -> None:
    """What a note closed stays as it is, and names what came after it."""
    older.superseded_by_id = newer.id
    if is_closed(older):
        return
    older.stale_cause = None
    older.status = FindingStatus.SUPERSEDED
    where = "on newer versions" if by_versions else "on other versions, where it was measured later"
    older.status_reason = f"{format_label(Noun.FINDING, newer.id)} {says_words(newer, older)} {where}."

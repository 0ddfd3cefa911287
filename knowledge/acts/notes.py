"""Notes on work done outside, such as a new driver: an event, and the findings that it makes stale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.errors import UsageError
from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label, parse_label
from db.models import Finding
from db.models.base import JsonObject
from db.states import FindingStatus
from knowledge.findings.staleness import StaleCause
from knowledge.queries.lookup import existing
from knowledge.stored import LEVER_JOINT

_SCOPE_FIELDS = ("model", "model_fingerprint", "target", "engine")
"""Fields of a scope that a note may name as `field=value`; a package of its versions may be named too."""


LONGEST_NOTE = 2_000
"""Characters of a note, at most: it is told again with every finding that it makes stale."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A note that was written: the id of its event and the findings it made stale."""

    event_id: int
    stale: tuple[int, ...]


def add_note(
    session: Session, text: str, *, stale: str | None = None, campaign_id: int | None = None
) -> Noted:
    """Write a note into the log and mark findings stale; works in the caller's write transaction.

    `stale` names a finding (`F-006`), a lever, a knob or its group (`serving.threads`, `serving`), or a part
    of the scope (`target=cpu`, `torch=2.13.0`, or `torch` for any version). Raises `UsageError` for an empty
    note, one of more than `LONGEST_NOTE` characters, and a name that no finding which still holds has to do
    with.
    """
    said = " ".join(text.split())
    if not said:
        raise UsageError("The note is empty.", 'Write it as: autoinfer note "what was done"')
    if len(said) > LONGEST_NOTE:
        raise UsageError(
            f"The note has {len(said)} characters, and {LONGEST_NOTE} are the most.",
            "Say it in a few sentences, and name the file that has the rest.",
        )
    found = [] if stale is None else _matching(session, stale)
    labels = [format_label(Noun.FINDING, finding.id) for finding in found]
    subject = labels[0] if len(labels) == 1 else None
    data = {"stale": labels, "match": stale} if stale is not None else None
    for finding in found:
        finding.status = FindingStatus.STALE
        finding.stale_cause = StaleCause.NOTE.value
        finding.status_reason = f"Something changed outside: {said}"
        finding.updated_at = now()
    session.flush()
    event_id = events.append(session, EventKind.NOTE_ADDED, said, subject, campaign_id, data)
    for finding, label in zip(found, labels, strict=True):
        changed = f"{label} is stale: {said}"
        marked = {"status": FindingStatus.STALE.value, "note_event_id": event_id}
        events.append(session, EventKind.FINDING_CHANGED, changed, label, finding.campaign_id, marked)
    return Noted(event_id, tuple(finding.id for finding in found))


def concerns(scope: JsonObject, match: str) -> bool:
    """Return whether a stored scope has to do with `match`: a lever, a knob or its group, or a part of the
    scope."""
    name, equals, value = match.partition("=")
    versions: dict[str, Any] = scope.get("versions") or {}
    if equals:
        if name in _SCOPE_FIELDS:
            return str(scope.get(name)) == value
        return str(versions.get(name)) == value
    knobs: list[str] = scope.get("knobs") or []
    return (
        match in str(scope.get("lever", "")).split(LEVER_JOINT)
        or any(knob == match or knob.startswith(f"{match}.") for knob in knobs)
        or match in versions
    )


def _matching(session: Session, match: str) -> list[Finding]:
    query = select(Finding).where(Finding.status.in_([FindingStatus.HOLDS, FindingStatus.CONTRADICTED]))
    if "-" in match and "=" not in match and match[:2].upper() == "F-":
        noun, number = parse_label(match)
        query = query.where(Finding.id == existing(session, noun, number))
        found = list(session.scalars(query))
    else:
        found = [finding for finding in session.scalars(query) if concerns(finding.scope, match)]
    if not found:
        raise UsageError(
            f"No finding that still holds has to do with {match!r}, so the note was not written.",
            "List them with: autoinfer findings, or write the note without --stale.",
        )
    return sorted(found, key=lambda finding: finding.id)

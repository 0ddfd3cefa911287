"""Findings whose versions or driver their target no longer has: stale from the first baseline or verdict on
others.

A finding goes on being true of the versions it was reached with; nothing on its target has these any more, so
nobody should act on it before it was tested again. It holds again where the versions come back, and so does
one that was superseded since by what is stale now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import select
from sqlalchemy.orm import Session

from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Event, Finding
from db.states import FindingStatus
from knowledge.findings.facts import facts_of_finding
from knowledge.findings.rules import Rule, derive
from knowledge.findings.verdict_fact import SAYING, VERSIONS_MARK
from knowledge.machines import machine

_HELD = (FindingStatus.HOLDS, FindingStatus.CONTRADICTED)


class StaleCause(StrEnum):
    """Why a finding is stale."""

    NOTE = "note"
    """The user said that something changed."""
    CHECK = "check"
    """A recipe that rests on it failed its check (`knowledge.findings.checked`)."""
    VERSIONS = "versions"
    """What came later on its target ran with other versions or another driver."""


@dataclass(frozen=True)
class Ran:
    """On which target an engine ran, and with which versions, the GPU's driver among them."""

    target: str
    engine: str
    versions: Mapping[str, object]


def is_closed(finding: Finding) -> bool:
    """Whether a note or a check closed it: what its target's versions made stale is only waiting for them."""
    return finding.status is FindingStatus.STALE and finding.stale_cause != StaleCause.VERSIONS


def closed_at(session: Session, finding: Finding) -> datetime | None:
    """When a note or a check closed a finding, as the log tells; None of one that none closed."""
    if not is_closed(finding):
        return None
    by_check = Event.data["cause"].as_string() == StaleCause.CHECK.value
    query = (
        select(Event.at)
        .where(
            Event.kind == EventKind.FINDING_CHANGED.value,
            Event.subject == format_label(Noun.FINDING, finding.id),
            Event.data["note_event_id"].as_integer().is_not(None) | by_check,
            Event.data["status"].as_string() == FindingStatus.STALE.value,
        )
        .order_by(Event.id.desc())
        .limit(1)
    )
    return session.scalar(query)


def statement_of(finding: Finding) -> str:
    """Return how the keys of all findings of the same statement begin, whatever their versions; a key that
    names none is whole."""
    lineage, mark, versions = finding.key.rpartition(VERSIONS_MARK)
    return f"{lineage}{mark}" if mark else versions


def says_words(finding: Finding, other: Finding) -> str:
    """Return what a finding says of what another one of the same statement says, as a clause."""
    same = finding.scope.get(SAYING) == other.scope.get(SAYING) and not _was_contradicted(other)
    return "says it" if same else "says otherwise"


def _was_contradicted(finding: Finding) -> bool:
    """Whether what ran later has spoken against it for good: its own evidence does not say both."""
    return finding.status is FindingStatus.CONTRADICTED and finding.rule != Rule.CONTRADICTED


def moved_on(then: Mapping[str, object], now_: Mapping[str, object]) -> tuple[str, ...]:
    """Return what differs of the packages that both name, such as `torch 2.13.0 → 2.14.0`. Pure."""
    return tuple(f"{name} {then[name]} → {now_[name]}" for name in of_other_versions(then, now_))


def of_other_versions(then: Mapping[str, object], now_: Mapping[str, object]) -> tuple[str, ...]:
    """Return the packages that both name, in versions that differ. Pure."""
    return tuple(name for name in sorted(then) if name in now_ and str(then[name]) != str(now_[name]))


def follow_versions(session: Session, ran: Ran, experiment: str) -> tuple[int, ...]:
    """Mark what a target has left behind stale, and what it has come back to as holding again.

    `experiment` is the label of the one that ran so; the findings are those of the same target and engine. A
    verdict that was imported tells nothing of a target's versions now. Returns the ids of the findings that
    changed, and appends an event for each.
    """
    query = select(Finding).where(
        Finding.status.in_([*_HELD, FindingStatus.STALE]),
        Finding.superseded_by_id.is_(None),
        Finding.scope["target"].as_string() == ran.target,
        Finding.scope["engine"].as_string() == ran.engine,
    )
    found = [each for each in session.scalars(query.order_by(Finding.id)) if not is_closed(each)]
    moved = {each.id: moved_on(each.scope.get("versions") or {}, ran.versions) for each in found}
    away = [each for each in found if moved[each.id]]
    back = [each for each in found if not moved[each.id] and each.status is FindingStatus.STALE]
    here = {statement_of(each) for each in found if not moved[each.id]}
    left = [each for each in away if each.status is not FindingStatus.STALE and not _was_contradicted(each)]
    superseded = _superseded_with_these(
        session, ran, [each for each in away if statement_of(each) not in here]
    )
    for finding in back:
        _take_back(session, finding, ran.target, experiment)
    for finding, newer in superseded:
        finding.superseded_by_id = None
        _take_back(session, finding, ran.target, experiment, instead_of=newer)
    for finding in left:  # last, since what stands with the versions of now is named
        _mark_stale(session, finding, ran, moved[finding.id], experiment)
    return tuple(each.id for each in (*back, *(each for each, _ in superseded), *left))


def _superseded_with_these(
    session: Session, ran: Ran, away: Sequence[Finding]
) -> list[tuple[Finding, Finding]]:
    """The findings on the versions that the target has now that those `away` superseded, themselves or by way
    of others, each with the one that did; the latest of each statement. What came before a note or a check
    closed one between stays as it is."""
    if not away:
        return []
    query = select(Finding).where(
        Finding.status == FindingStatus.SUPERSEDED,
        Finding.scope["target"].as_string() == ran.target,
        Finding.scope["engine"].as_string() == ran.engine,
    )
    older = {each.id: each for each in session.scalars(query.order_by(Finding.id))}
    newest = {each.id: each for each in away}
    found = {}
    for each in older.values():
        newer: Finding | None = each
        while newer is not None and newer.id in older:
            newer = older.get(newer.superseded_by_id or 0) or newest.get(newer.superseded_by_id or 0)
        if newer is not None and not of_other_versions(each.scope.get("versions") or {}, ran.versions):
            found[statement_of(each)] = each, newer
    return list(found.values())


def _mark_stale(
    session: Session, finding: Finding, ran: Ran, moved: tuple[str, ...], experiment: str
) -> None:
    tested = _with_these(session, finding, ran)
    then = "and it was not tested with these"
    if tested is not None:
        then = f"with which {format_label(Noun.FINDING, tested.id)} {says_words(tested, finding)}"
    finding.status = FindingStatus.STALE
    finding.stale_cause = StaleCause.VERSIONS.value
    finding.status_reason = (
        f"{machine(ran.target)} has other versions since {experiment} ({', '.join(moved)}), {then}."
    )
    _tell(session, finding, f"is stale: {finding.status_reason}")


def _with_these(session: Session, finding: Finding, ran: Ran) -> Finding | None:
    """The finding of the same statement that stands on the versions that the target has now; None of one
    whose key names no versions."""
    if VERSIONS_MARK not in finding.key:
        return None
    query = select(Finding).where(
        Finding.key.startswith(statement_of(finding), autoescape=True),
        Finding.id != finding.id,
        Finding.status.in_(_HELD),
        Finding.superseded_by_id.is_(None),
    )
    standing = session.scalars(query.order_by(Finding.id.desc()))
    return next(
        (each for each in standing if not of_other_versions(each.scope.get("versions") or {}, ran.versions)),
        None,
    )


def _take_back(
    session: Session, finding: Finding, target: str, experiment: str, *, instead_of: Finding | None = None
) -> None:
    finding.status, finding.status_reason, finding.stale_cause = FindingStatus.HOLDS, None, None
    if finding.rule == Rule.CONTRADICTED:
        draft = derive(facts_of_finding(session, finding.id))
        assert draft is not None  # it was derived from these
        finding.status, finding.status_reason = draft.status, draft.status_reason
    instead = "" if instead_of is None else f" instead of {format_label(Noun.FINDING, instead_of.id)}"
    said = f"{finding.status.value} again{instead}: {machine(target)} has its versions since {experiment}."
    _tell(session, finding, said)


def _tell(session: Session, finding: Finding, said: str) -> None:
    finding.updated_at = now()
    session.flush()
    label = format_label(Noun.FINDING, finding.id)
    data = {"status": finding.status.value, "cause": finding.stale_cause}
    events.append(session, EventKind.FINDING_CHANGED, f"{label} {said}", label, finding.campaign_id, data)

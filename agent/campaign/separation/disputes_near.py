"""Disputes that the log told and that a campaign may take apart: those near its own scope that nothing in any
queue takes apart yet.

An import may tell of thousands that concern no campaign here. So they are read without a lock on the
database, a bounded number of events at a time, and whatever is cheap to see is looked at first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.decision.desk import Desk
from agent.campaign.known.ruled_out import differs_from
from agent.campaign.separation.disputed_here import distance
from db.event_kinds import EventKind
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Event, Finding, FindingEvidence, Hypothesis
from knowledge.findings.disputes import Claim, Dispute, disputes_of
from knowledge.findings.telling import OPEN, claim
from knowledge.stored import DISPUTES, metric_of

MOST_READ = 1000
"""Events that are read at a time."""

MOST_NEAR = 16
"""Disputes that are handed on at a time: what takes one apart is drafted in a write transaction."""


@dataclass(frozen=True)
class Near:
    """Disputes near a campaign's scope, each with the event that told it, and the last event looked at.

    `measured` are the findings of here by which a change need not be tested here; `is_all`: nothing was told
    after that event.
    """

    disputes: tuple[tuple[int, Dispute], ...]
    through: int
    measured: tuple[Claim, ...] = ()
    is_all: bool = True


def disputes_near(session: Session, desk: Desk, since: int) -> Near:
    """Return what the log told after the event `since` and this campaign may take apart, the oldest first."""
    told = session.execute(
        select(Event.id, Event.data)
        .where(Event.kind == EventKind.FINDING_DISPUTED.value, Event.id > since)
        .order_by(Event.id)
        .limit(MOST_READ)
    ).all()
    if not told:
        return Near((), since)
    campaign = session.get_one(Campaign, desk.facts.id)
    labels_of = {number: tuple((data or {}).get("findings", ())) for number, data in told}
    findings = open_findings(session, {label for labels in labels_of.values() for label in labels})
    near = {label for label, each in findings.items() if _is_near(each, desk, campaign)}
    asked = _asked(session) if near else frozenset()
    found: list[tuple[int, Dispute]] = []
    for number, labels in labels_of.items():
        since = number
        if near.isdisjoint(labels):
            continue
        dispute = standing(findings, labels)
        if dispute is not None and not dispute.is_answered and dispute.labels not in asked:
            found.append((number, dispute))
            if len(found) == MOST_NEAR:
                break
    measured = _measured_here(session, desk, campaign) if found else ()
    return Near(tuple(found), since, measured, is_all=since == told[-1].id and len(told) < MOST_READ)


def open_findings(session: Session, labels: Iterable[str]) -> dict[str, Finding]:
    """Return those of these findings that may be disputed, by their labels; in one statement."""
    numbers = sorted(parse_label_of(Noun.FINDING, label) for label in labels)
    query = select(Finding).where(Finding.id.in_(numbers), Finding.status.in_(OPEN))
    return {format_label(Noun.FINDING, each.id): each for each in session.scalars(query)}


def standing(findings: Mapping[str, Finding], labels: Sequence[str]) -> Dispute | None:
    """Return the dispute between these findings as it is now; None where one of them does not stand any
    more."""
    if not labels or any(label not in findings for label in labels):
        return None
    one, *others = (claim(findings[label]) for label in labels)
    return next((each for each in disputes_of(one, others) if {*each.labels} == {*labels}), None)


def is_here(finding: Finding, desk: Desk, campaign: Campaign) -> bool:
    """Whether a finding speaks of this campaign's model, target, engine, workload and metric."""
    spec = desk.facts.spec
    return (
        finding.scope.get("engine") == spec.engine
        and metric_of(finding.scope) == desk.facts.objective
        and not differs_from(finding.scope, campaign, spec)
    )


def _is_near(finding: Finding, desk: Desk, campaign: Campaign) -> bool:
    return distance(finding.scope, desk, campaign) is not None or is_here(finding, desk, campaign)


def _asked(session: Session) -> frozenset[tuple[str, ...]]:
    """The disputes that a hypothesis takes apart, by the labels of their findings."""
    about = Hypothesis.change[DISPUTES]["findings"]
    query = select(about).where(about.as_string().is_not(None))
    return frozenset(tuple(each) for each in session.scalars(query))


def _measured_here(session: Session, desk: Desk, campaign: Campaign) -> tuple[Claim, ...]:
    """The findings in this very scope that a verdict of this database is behind."""
    query = (
        select(Finding)
        .where(
            Finding.status.in_(OPEN),
            Finding.scope["target"].as_string() == campaign.target,
            Finding.id.in_(select(FindingEvidence.finding_id)),
        )
        .order_by(Finding.id)
    )
    return tuple(claim(each) for each in session.scalars(query) if distance(each.scope, desk, campaign) == 0)

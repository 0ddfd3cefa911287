"""Directives in the database: given, lifted and looked up, each with its event; what steering is made of."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.errors import UsageError
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Directive, Hypothesis
from db.models.base import JsonObject
from db.states import CampaignState, DirectiveKind, HypothesisState
from knowledge.acts.allowances import SHARE, TESTS, TIME_S, Allowance
from knowledge.stored import number

WAITING = frozenset({HypothesisState.PROPOSED, HypothesisState.QUEUED})
"""States in which a hypothesis has no test behind it and may still be moved or withdrawn."""


def add(
    session: Session,
    campaign_id: int,
    kind: DirectiveKind,
    text: str,
    *,
    lever: str | None = None,
    hypothesis: Hypothesis | None = None,
    value: JsonObject | None = None,
) -> Directive:
    """Give a directive, about a lever or a hypothesis, with the event that the ranking cites."""
    subject = format_label(Noun.CAMPAIGN, campaign_id) if hypothesis is None else hypothesis_label(hypothesis)
    about = None if hypothesis is None else hypothesis.id
    data = {"kind": kind.value, "lever": lever, "hypothesis_id": about}
    event_id = events.append(session, EventKind.DIRECTIVE_GIVEN, text, subject, campaign_id, data)
    directive = Directive(
        campaign_id=campaign_id,
        kind=kind,
        lever=lever,
        hypothesis_id=about,
        value=value,
        text=text,
        event_id=event_id,
    )
    session.add(directive)
    session.flush()
    return directive


def end_silently(session: Session, hypothesis: Hypothesis, *kinds: DirectiveKind) -> None:
    """End what holds of a hypothesis without an event of its own: what was done to it says so."""
    for kind in kinds:
        for directive in active(session, hypothesis.campaign_id, kind=kind):
            if directive.hypothesis_id == hypothesis.id:
                directive.active = False
    session.flush()


def lift(session: Session, directive: Directive) -> None:
    """End a directive, with an event."""
    directive.active = False
    session.flush()
    label = format_label(Noun.DIRECTIVE, directive.id)
    data = {
        "kind": directive.kind.value,
        "lever": directive.lever,
        "hypothesis_id": directive.hypothesis_id,
    }
    text = f"Lifted: {directive.text}"
    events.append(session, EventKind.DIRECTIVE_LIFTED, text, label, directive.campaign_id, data)


def stored_allowance(directive: Directive) -> Allowance:
    """How much a stored directive allows; nothing of it where it is no cap and no reserve."""
    value = directive.value or {}
    tests = number(value.get(TESTS))
    return Allowance(
        None if tests is None else int(tests), number(value.get(TIME_S)), number(value.get(SHARE))
    )


def active(
    session: Session, campaign_id: int, *, kind: DirectiveKind | None = None, lever: str | None = None
) -> Sequence[Directive]:
    """The directives of a campaign that hold, of a kind or a lever or all, oldest first."""
    query = select(Directive).where(Directive.campaign_id == campaign_id, Directive.active)
    if kind is not None:
        query = query.where(Directive.kind == kind)
    if lever is not None:
        query = query.where(Directive.lever == lever)
    return session.scalars(query.order_by(Directive.id)).all()


def check_waiting(hypothesis: Hypothesis, done: str) -> None:
    """Raise `UsageError` for what stands in no queue any more and so can't be `done`."""
    if hypothesis.state not in WAITING:
        label = hypothesis_label(hypothesis)
        raise UsageError(
            f"{label} is {hypothesis.state.value}; only what waits in the queue can be {done}.",
            "See: autoinfer queue",
        )


def check_alive(session: Session, campaign_id: int) -> None:
    """Raise `UsageError` for a campaign, which must exist, that has ended."""
    campaign = session.get_one(Campaign, campaign_id)
    if campaign.state is CampaignState.STOPPED:
        label = format_label(Noun.CAMPAIGN, campaign_id)
        why = str(campaign.stopped_because)
        raise UsageError(f"{label} has ended: {why}.", "Start another with: autoinfer run", quotes=(why,))


def hypothesis_label(hypothesis: Hypothesis) -> str:
    """Such as `H-021`."""
    return format_label(Noun.HYPOTHESIS, hypothesis.id)

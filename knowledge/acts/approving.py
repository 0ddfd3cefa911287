"""Approving what waits for it, and taking that back: writes, each with its event."""

from __future__ import annotations

from sqlalchemy.orm import Session

from configs.errors import UsageError
from configs.quantities import format_duration
from db.labels import Noun, format_label
from db.models import Campaign, Hypothesis
from db.states import DirectiveKind
from knowledge.acts.approvals import (
    APPROVED_BY,
    AWAITS,
    UP_TO_S,
    approval_of,
    approve_above_s,
    quote_words,
)
from knowledge.acts.directives import active, add, check_waiting, end_silently, hypothesis_label, lift
from knowledge.stored import number


def approve(session: Session, hypothesis_id: int, up_to_s: float | None = None) -> Hypothesis:
    """Let a hypothesis, which must exist and waits for approval, be tested when its turn comes.

    It may for as long as it is expected to take `up_to_s` at most, or what its quote says if all of its plan
    is measured: what comes to be expected above that waits again. One that is approved already stays so.
    Raises `UsageError` when it is not waiting for approval, and when it is expected to take more than
    `up_to_s` by now.
    """
    hypothesis = session.get_one(Hypothesis, hypothesis_id)
    label = hypothesis_label(hypothesis)
    check_waiting(hypothesis, "approved")
    view = approval_of(hypothesis)
    if view is None:
        raise UsageError(f"{label} does not wait for approval: {_why_not(session, hypothesis)}.")
    if not view.waits:
        return hypothesis
    if up_to_s is not None and view.cost_s > up_to_s:
        raise UsageError(
            f"{label} is {view.words} by now, which is more than {format_duration(up_to_s)}.",
            f"Look at it again: autoinfer show {label}",
        )
    limit_s = view.most_s if up_to_s is None else up_to_s
    limit = "" if limit_s is None else f", up to {format_duration(round(limit_s))}"
    end_silently(session, hypothesis, DirectiveKind.APPROVAL)
    directive = add(
        session,
        hypothesis.campaign_id,
        DirectiveKind.APPROVAL,
        f"{label} may be tested{limit}.",
        hypothesis=hypothesis,
        value={"cost_s": view.cost_s, **({} if limit_s is None else {UP_TO_S: limit_s})},
    )
    _mark(hypothesis, waits=False, event_id=directive.event_id)
    return hypothesis


def unapprove(session: Session, hypothesis_id: int) -> Hypothesis:
    """Take the approval of a hypothesis, which must exist, back before it is tested.

    Raises `UsageError` when it was not approved or its test has begun.
    """
    hypothesis = session.get_one(Hypothesis, hypothesis_id)
    check_waiting(hypothesis, "held back")
    held = [
        each
        for each in active(session, hypothesis.campaign_id, kind=DirectiveKind.APPROVAL)
        if each.hypothesis_id == hypothesis_id
    ]
    if not held:
        raise UsageError(f"{hypothesis_label(hypothesis)} was not approved.")
    for directive in held:
        lift(session, directive)
    if approval_of(hypothesis) is not None:
        _mark(hypothesis, waits=True, event_id=None)
    return hypothesis


def _mark(hypothesis: Hypothesis, *, waits: bool, event_id: int | None) -> None:
    """Write at once into its place what the next ranking will find, so that nothing is run, or shown, by what
    held before."""
    hypothesis.score = {**(hypothesis.score or {}), AWAITS: waits, APPROVED_BY: event_id}


def _why_not(session: Session, hypothesis: Hypothesis) -> str:
    campaign = session.get_one(Campaign, hypothesis.campaign_id)
    above_s = approve_above_s(campaign.budget)
    if above_s is None:
        return f"{format_label(Noun.CAMPAIGN, campaign.id)} asks for no approval"
    cost_s = number((hypothesis.score or {}).get("cost_s"))
    if cost_s is None:
        return "what it costs is not known before it is ranked"
    if cost_s > above_s:
        return "a ban holds it back"
    return f"it is {quote_words(cost_s, None)}, and more than {format_duration(above_s)} is asked about"

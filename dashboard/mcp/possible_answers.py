"""What could be, as the tools answer it: what may be set, and where a proposal or a verdict would lead."""

from __future__ import annotations

from pydantic import Field
from sqlalchemy.orm import Session

from configs.errors import AutoinferError
from dashboard.mcp.answers import Answer, Change, Effect, LatencyOnly, changes, predicted
from dashboard.mcp.quoting import LONG, NAME, Quoted, maybe, quoted, told
from dashboard.page import Ground, Request
from dashboard.pages import enqueue, what_if
from knowledge.acts.levers import known_levers
from knowledge.queries.lookup import campaign_of

MOST_KNOBS, MOST_VALUES, MOST_SHIFTS = 80, 40, 5


class KnobAnswer(Answer):
    """A knob that is legal now: what to write into an assignment `NAME=VALUE`."""

    name: str
    lever: str
    help: str
    values: tuple[str, ...]
    now: str | None = Field(description="Its value in the configuration that a proposal would change.")
    also: str | None = Field(description="What else may be given, in words.")


class SpaceAnswer(Answer):
    """The knobs of a campaign's space that are legal on its best configuration so far."""

    campaign: str | None
    against: str
    knobs: tuple[KnobAnswer, ...]
    levers: tuple[str, ...]


class PreviewAnswer(Answer):
    """What would become of a proposal that is not made yet, or why it can't be."""

    campaign: str | None
    against: str = Field(description="The configuration that it would be tested against.")
    refusal: Quoted | None = Field(description="Why it can't be; it may name what others claim.")
    change: tuple[Change, ...]
    lever: str | None
    predicted: Effect | None
    rank: int | None = Field(description="Where it would stand, of `queued`; None before the baseline.")
    queued: int | None
    reason: Quoted | None
    cost_s: float | None = Field(description="Expected seconds of the target.")
    duplicate_of: str | None


class Shift(Answer):
    """A hypothesis that would move, beyond everybody's moving up."""

    hypothesis: str
    from_rank: int | None
    to_rank: int | None
    why: Quoted


class Consequence(Answer):
    """What one outcome would do to the queue; nothing is changed by asking."""

    outcome: str
    assumed: str
    is_best: bool
    next: str | None
    moved: int | None = Field(description="None where the model is not on this machine, as `unranked` says.")
    moves: tuple[Shift, ...]
    leave: tuple[str, ...]


class WhatIfAnswer(Answer):
    """Where the queue would go with each outcome of one hypothesis."""

    campaign: str | None
    hypothesis: str | None
    latency_only: LatencyOnly
    consequences: tuple[Consequence, ...]
    unranked: Quoted | None = Field(description="Why who moves and who is next can't be told here.")


def space(session: Session, ground: Ground, label: str | None, assignments: list[str]) -> SpaceAnswer:
    """The knobs that are legal on the best configuration so far, with what is chosen already."""
    found = enqueue.read(
        session, Request({}, enqueue.EnqueueFilters(campaign=label, set=assignments)), ground
    )
    if found.refusal is not None and not found.knobs:
        raise AutoinferError(found.refusal, found.hint or "")
    levers = () if found.campaign is None else known_levers(session, campaign_of(session, label))
    return SpaceAnswer(
        campaign=found.campaign,
        against=found.against,
        knobs=tuple(
            KnobAnswer(
                name=each.name,
                lever=each.lever,
                help=told(each.help, 300) or "",
                values=tuple(told(one.text, NAME) or "" for one in each.options)[:MOST_VALUES],
                now=next((told(one.text, NAME) for one in each.options if not one.assignment), None),
                also=told(each.also, 300) or None,
            )
            for each in found.knobs[:MOST_KNOBS]
        ),
        levers=tuple(sorted(levers)),
    )


def preview(
    session: Session,
    ground: Ground,
    label: str | None,
    claim: str | None,
    assignments: list[str],
    expect: str | None,
    min_effect: str | None,
) -> PreviewAnswer:
    """What would become of a proposal, or why it can't be; writes nothing."""
    asked = enqueue.EnqueueFilters(
        campaign=label, claim=claim, set=assignments, expect=expect, min_effect=min_effect
    )
    found = enqueue.read(session, Request({}, asked), ground)
    shown = found.preview
    refusal = found.refusal
    if shown is None and refusal is None:
        none = (
            "There is no campaign yet."
            if found.campaign is None
            else "It changes nothing of what is set now."
        )
        refusal, hint = none, None
    else:
        hint = found.hint
    return PreviewAnswer(
        campaign=found.campaign,
        against=found.against,
        refusal=None if refusal is None else quoted(f"{refusal} {hint or ''}", LONG),
        change=() if shown is None else changes(shown.change),
        lever=None if shown is None else shown.lever,
        predicted=None if shown is None else predicted(shown.predicted),
        rank=None if shown is None else shown.rank,
        queued=None if shown is None else shown.queued,
        reason=None if shown is None else maybe(shown.reason),
        cost_s=None if shown is None else shown.cost_s,
        duplicate_of=None if shown is None else shown.duplicate,
    )


def what_if_decided(
    session: Session,
    ground: Ground,
    label: str | None,
    hypothesis: str,
    outcome: str | None,
    saves_percent: float | None,
) -> WhatIfAnswer:
    """Where the queue would go if one hypothesis were decided; changes nothing."""
    asked = what_if.WhatIfFilters(campaign=label, hypothesis=hypothesis, outcome=outcome, saves=saves_percent)
    found = what_if.read(session, Request({}, asked), ground)
    return WhatIfAnswer(
        campaign=found.campaign,
        hypothesis=None if found.taken is None else found.taken.id,
        latency_only=found.latency_only,
        consequences=tuple(
            Consequence(
                outcome=each.outcome,
                assumed=each.words,
                is_best=each.is_best,
                next=None if each.next is None else each.next.id,
                moved=each.moved,
                moves=tuple(
                    Shift(
                        hypothesis=one.hypothesis,
                        from_rank=one.from_rank,
                        to_rank=one.to_rank,
                        why=quoted(one.why),
                    )
                    for one in each.shifts[:MOST_SHIFTS]
                ),
                leave=each.leave[:MOST_VALUES],
            )
            for each in found.consequences
        ),
        unranked=maybe(found.unranked),
    )

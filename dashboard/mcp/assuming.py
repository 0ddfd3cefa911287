"""What could be: the knobs that may be set, what would become of a proposal, where the queue would go."""

from __future__ import annotations

from sqlalchemy.orm import Session

from dashboard.mcp import answers
from dashboard.mcp.answers import changes, predicted
from dashboard.mcp.quoting import maybe, quoted, told
from dashboard.page import Ground, Request
from dashboard.pages import enqueue, what_if
from experiments.telemetry.collect import samples
from knowledge.levers import known_levers
from knowledge.queries.lookup import campaign_of

MOST_KNOBS, MOST_VALUES, MOST_SHIFTS = 80, 40, 5

LOOK_S = 1.0
"""Seconds that a look at devices takes: utilization is that between two readings."""


def space(session: Session, ground: Ground, label: str | None, assignments: list[str]) -> answers.SpaceAnswer:
    """The knobs that are legal on the best configuration so far, with what is chosen already."""
    found = enqueue.read(
        session, Request({}, enqueue.EnqueueFilters(campaign=label, set=assignments)), ground
    )
    levers = () if found.campaign is None else known_levers(session, campaign_of(session, label))
    return answers.SpaceAnswer(
        campaign=found.campaign,
        against=found.against,
        knobs=tuple(
            answers.KnobAnswer(
                name=each.name,
                lever=each.lever,
                help=told(each.help, 300) or "",
                values=tuple(told(one.text, answers.MOST_VALUE) or "" for one in each.options)[:MOST_VALUES],
                now=next((told(one.text, 120) for one in each.options if not one.assignment), None),
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
) -> answers.PreviewAnswer:
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
    return answers.PreviewAnswer(
        campaign=found.campaign,
        against=found.against,
        refusal=None if refusal is None else told(f"{refusal} {hint or ''}"),
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
) -> answers.WhatIfAnswer:
    """Where the queue would go if one hypothesis were decided; changes nothing."""
    asked = what_if.WhatIfFilters(campaign=label, hypothesis=hypothesis, outcome=outcome, saves=saves_percent)
    found = what_if.read(session, Request({}, asked), ground)
    return answers.WhatIfAnswer(
        campaign=found.campaign,
        hypothesis=None if found.taken is None else found.taken.id,
        consequences=tuple(
            answers.Consequence(
                outcome=each.outcome,
                assumed=each.words,
                is_best=each.is_best,
                next=None if each.next is None else each.next.id,
                moved=each.moved,
                moves=tuple(
                    answers.Shift(
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
    )


def devices() -> answers.DevicesAnswer:
    """The devices of this machine now; takes a second."""
    *_, sample = samples(LOOK_S)
    return answers.DevicesAnswer(
        at=sample.at,
        devices=tuple(
            answers.Device(
                name=each.name,
                model=each.model,
                utilization_percent=each.utilization_percent,
                memory_used_bytes=each.memory_used_bytes,
                memory_total_bytes=each.memory_total_bytes,
                power_w=each.power_w,
                temperature_c=each.temperature_c,
                clock_mhz=each.clock_mhz,
                throttled_by=each.throttle,
            )
            for each in sample.devices
        ),
        note=sample.note,
    )

"""Steering by the user: pins, moves, withdrawals, and the life of a campaign. Writes, each with its event.

Every function works inside the caller's write transaction and appends its event there; the loop reads what
holds (`Directive.active`, `Hypothesis.pinned`, `Campaign.state`) at its next turn, and the ranking cites the
event.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.authors import author_words
from configs.errors import UsageError
from configs.reasons import reason_given
from db import events
from db.campaign_owner import free_from_the_dead, is_driven
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Hypothesis, Job
from db.models.base import JsonObject
from db.states import CampaignState, DirectiveKind, ExperimentKind, HypothesisState, JobState
from experiments.worker.cancelling import cancel
from knowledge.acts.contradictions import check_banned
from knowledge.acts.directives import (
    WAITING,
    active,
    add,
    check_alive,
    check_waiting,
    end_silently,
    hypothesis_label,
    lift,
)
from knowledge.going_on import USER_STOPPED_IT
from knowledge.stored import LEVER_JOINT

USER, AGENT = "user", "agent"
"""Who withdraws, as its event's data keeps it, beside the names of coding agents."""

AHEAD = "ahead"
"""Where the `value` of a priority keeps the ids of the hypotheses that it leaves ahead."""


def pin(session: Session, hypothesis_id: int) -> Hypothesis:
    """Put a hypothesis, which must exist, first in its queue until it is tested or unpinned.

    Raises `UsageError` when it is not waiting any more, and when it changes a lever that is banned.
    """
    hypothesis = session.get_one(Hypothesis, hypothesis_id)
    check_waiting(hypothesis, "pinned")
    _check_bans(session, hypothesis, "pinned")
    if not hypothesis.pinned:
        hypothesis.pinned = True
        text = f"{hypothesis_label(hypothesis)} is tested before all others."
        add(session, hypothesis.campaign_id, DirectiveKind.PIN, text, hypothesis=hypothesis)
    return hypothesis


def _check_bans(session: Session, hypothesis: Hypothesis, done: str) -> None:
    bans = active(session, hypothesis.campaign_id, kind=DirectiveKind.BAN)
    check_banned(hypothesis_label(hypothesis), hypothesis.lever.split(LEVER_JOINT), bans, done)


def unpin(session: Session, hypothesis_id: int) -> Hypothesis:
    """Take the pin off a hypothesis, which must exist.

    Raises `UsageError` when it has none.
    """
    hypothesis = session.get_one(Hypothesis, hypothesis_id)
    if not hypothesis.pinned:
        raise UsageError(f"{hypothesis_label(hypothesis)} is not pinned.")
    hypothesis.pinned = False
    pins = active(session, hypothesis.campaign_id, kind=DirectiveKind.PIN)
    for directive in pins:
        if directive.hypothesis_id == hypothesis_id:
            lift(session, directive)
    return hypothesis


def move(session: Session, hypothesis_id: int, place: int) -> Hypothesis:
    """Put a hypothesis, which must exist, at a place of its queue, 1 the first, until it is tested.

    It stays behind those that are ahead of that place now, and before all others; a later move of it replaces
    this one. Raises `UsageError` when it is not waiting any more, is pinned, changes a lever that is banned,
    or there is no such place.
    """
    hypothesis = session.get_one(Hypothesis, hypothesis_id)
    check_waiting(hypothesis, "moved")
    _check_bans(session, hypothesis, "moved")
    label = hypothesis_label(hypothesis)
    if hypothesis.pinned:
        raise UsageError(
            f"{label} is pinned, and a pin goes before every move.",
            f"Take the pin off first: autoinfer pin {label} --clear",
        )
    order = waiting_order(session, hypothesis.campaign_id)
    pinned = set(
        session.scalars(
            select(Hypothesis.id).where(Hypothesis.campaign_id == hypothesis.campaign_id, Hypothesis.pinned)
        )
    )
    if not 1 <= place <= len(order):
        raise UsageError(
            f"There is no place {place} in the queue of {len(order)}.", f"Give one from 1 to {len(order)}."
        )
    first = [each for each in order if each in pinned]
    if place <= len(first):
        label = format_label(Noun.HYPOTHESIS, first[place - 1])
        raise UsageError(
            f"{label} is pinned, and a pin goes before every move.",
            f"Name a place behind it, or take its pin off: autoinfer pin {label} --clear",
        )
    rest = [each for each in order if each not in pinned and each != hypothesis_id]
    ahead = [*first, *rest][: place - 1]
    end_silently(session, hypothesis, DirectiveKind.PRIORITY)
    text = f"{label} is put at place {place} of the queue."
    add(
        session,
        hypothesis.campaign_id,
        DirectiveKind.PRIORITY,
        text,
        hypothesis=hypothesis,
        value={AHEAD: ahead, "place": place},
    )
    return hypothesis


def unmove(session: Session, hypothesis_id: int) -> Hypothesis:
    """Let a hypothesis, which must exist, go back to the place that its score gives it.

    Raises `UsageError` when it was not moved.
    """
    hypothesis = session.get_one(Hypothesis, hypothesis_id)
    held = [
        each
        for each in active(session, hypothesis.campaign_id, kind=DirectiveKind.PRIORITY)
        if each.hypothesis_id == hypothesis_id
    ]
    if not held:
        raise UsageError(f"{hypothesis_label(hypothesis)} was not moved by hand.")
    for directive in held:
        lift(session, directive)
    return hypothesis


def waiting_order(session: Session, campaign_id: int) -> list[int]:
    """The hypotheses that wait in a campaign, in the order in which the queue shows them."""
    query = select(Hypothesis.id).where(
        Hypothesis.campaign_id == campaign_id, Hypothesis.state.in_(sorted(WAITING))
    )
    return list(session.scalars(query.order_by(Hypothesis.rank.nulls_last(), Hypothesis.id)))


def withdraw(session: Session, hypothesis_id: int, why: str | None, by: str = USER) -> Hypothesis:
    """Take a hypothesis, which must exist, out of the queue for good, and keep who wants it so and why.

    `by` is the user or a coding agent by its name; `why` None where no reason was given. Raises `UsageError`
    when its test has begun or it was settled before, and for a reason that is none (`reason_given`).
    """
    given = None if why is None else reason_given(why)
    said = "" if given is None else f": {given}"
    who = f"by {'the user' if by == USER else author_words(by)}"
    signed = events.author_of(session) is not None  # then the event's sentence ends with who it was
    told = f"was withdrawn{said}." if signed else f"was withdrawn {who}{said}."
    return _take_out(session, hypothesis_id, f"B{who[1:]}{said}.", told, {"by": by, "why": given})


def withdraw_proposal(session: Session, hypothesis_id: int, why: str) -> Hypothesis:
    """Take a hypothesis, which must exist, out of the queue on behalf of the agent, which says `why`.

    Raises `UsageError` when its test has begun or it was settled before.
    """
    return _take_out(session, hypothesis_id, why, f"was withdrawn: {why}", {"by": AGENT, "why": why})


def _take_out(session: Session, hypothesis_id: int, reason: str, told: str, data: JsonObject) -> Hypothesis:
    hypothesis = session.get_one(Hypothesis, hypothesis_id)
    check_waiting(hypothesis, "withdrawn")
    hypothesis.state = HypothesisState.WITHDRAWN
    hypothesis.state_reason = reason
    hypothesis.state_changed_at = now()
    hypothesis.rank = None
    hypothesis.pinned = False
    end_silently(
        session,
        hypothesis,
        DirectiveKind.PIN,
        DirectiveKind.PRIORITY,
        DirectiveKind.APPROVAL,
        DirectiveKind.QUESTION,
    )
    label = hypothesis_label(hypothesis)
    events.append(
        session,
        EventKind.HYPOTHESIS_WITHDRAWN,
        f"{label} {told}",
        label,
        hypothesis.campaign_id,
        {**data, "proposer": hypothesis.proposer},
    )
    return hypothesis


def pause_campaign(session: Session, campaign_id: int) -> Campaign:
    """Let a running campaign finish what runs and take nothing new.

    Raises `UsageError` when it does not run.
    """
    return _move(
        session,
        campaign_id,
        {CampaignState.RUNNING},
        CampaignState.PAUSED,
        EventKind.CAMPAIGN_PAUSED,
        "The user paused the campaign; what runs is finished.",
    )


def resume_campaign(session: Session, campaign_id: int) -> Campaign:
    """Let a paused campaign go on.

    Raises `UsageError` when it is not paused.
    """
    return _move(
        session,
        campaign_id,
        {CampaignState.PAUSED},
        CampaignState.RUNNING,
        EventKind.CAMPAIGN_RESUMED,
        "The user resumed the campaign.",
    )


def stop_campaign(session: Session, campaign_id: int) -> Campaign:
    """End a campaign: its loop finishes what runs and stops; without a live loop it is stopped at once.

    Then what waits for a worker is cancelled, because nobody would learn from it; a job that runs is
    finished, and learnt from if the campaign is resumed. Raises `UsageError` when it has ended before.
    """
    campaign = session.get_one(Campaign, campaign_id)
    check_alive(session, campaign_id)
    free_from_the_dead(session, campaign)
    if is_driven(session, campaign):
        campaign.state = CampaignState.STOPPING
        session.flush()
        return campaign
    _cancel_what_waits(session, campaign_id)
    campaign.state = CampaignState.STOPPED
    campaign.stopped_because = USER_STOPPED_IT
    campaign.ended_at = now()
    session.flush()
    label = format_label(Noun.CAMPAIGN, campaign_id)
    events.append(
        session, EventKind.CAMPAIGN_STOPPED, f"{label} ended: {USER_STOPPED_IT}.", label, campaign_id
    )
    return campaign


def _cancel_what_waits(session: Session, campaign_id: int) -> None:
    """Cancel the queued jobs of a campaign that nobody drives; the hypotheses under test wait again."""
    queued = select(Job).where(Job.campaign_id == campaign_id, Job.state == JobState.QUEUED)
    for job in session.scalars(queued.order_by(Job.id)).all():
        if cancel(session, job.id, "The campaign was stopped before a worker took it.") is JobState.CANCELLED:
            tested = select(Experiment.hypothesis_id).where(
                Experiment.id == job.experiment_id, Experiment.kind == ExperimentKind.TEST
            )
            hypothesis = session.get(Hypothesis, session.scalar(tested) or 0)
            if hypothesis is not None and hypothesis.state is HypothesisState.TESTING:
                hypothesis.state, hypothesis.state_changed_at = HypothesisState.QUEUED, now()
                label = format_label(Noun.HYPOTHESIS, hypothesis.id)
                text = f"{label} waits again: the campaign was stopped before its test began"
                events.append(session, EventKind.HYPOTHESIS_REQUEUED, text, label, campaign_id)
    session.flush()


def _move(
    session: Session,
    campaign_id: int,
    allowed: Collection[CampaignState],
    state: CampaignState,
    kind: EventKind,
    text: str,
) -> Campaign:
    campaign = session.get_one(Campaign, campaign_id)
    label = format_label(Noun.CAMPAIGN, campaign_id)
    if campaign.state not in allowed:
        wanted = " or ".join(sorted(allowed))
        ended = campaign.state is CampaignState.STOPPED
        hint = f"run --resume {label} --budget 30m" if ended else "campaign list"
        raise UsageError(
            f"{label} is {campaign.state.value}, not {wanted}.",
            f"{'Go on with it' if ended else 'See'}: autoinfer {hint}",
        )
    campaign.state = state
    session.flush()
    events.append(session, kind, text, label, campaign_id, {"by": "user"})
    return campaign

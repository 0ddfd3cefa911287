"""The queue in the database: what enters it, its order with reasons, and every move with its cause."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from agent.campaign.decision.carried_words import MOST_EXPLAINED, rests_on, tell_carried
from agent.campaign.decision.desk import Desk
from agent.campaign.decision.unpromising import sift
from agent.campaign.known.stale_findings import why_again
from agent.campaign.queue.accept import Duplicate, accept, refuse
from agent.campaign.queue.plugins import load_proposer
from agent.ground.shape import judged_here
from agent.proposers.asking import ask
from agent.proposers.port import Draft, Proposer
from agent.proposers.user import PROPOSER as USER
from agent.ranking.moves import after_words, moves
from agent.ranking.values import Cause, Directive, Place, Ranking, Steering
from agent.ranking.values import Move as Moved
from configs.authors import author_words
from configs.errors import UsageError
from configs.moments import format_utc
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Directive as DirectiveRow
from db.models import Event, Hypothesis, Move
from db.states import DirectiveKind, HypothesisState
from knowledge.acts import steering
from knowledge.acts.approvals import UP_TO_S, awaits_approval, quote_words
from knowledge.acts.directives import stored_allowance
from knowledge.figures import counted, listed
from knowledge.moved_words import moved_words

QUEUE_TARGET = 10
"""Hypotheses the loop likes to have waiting: enough to choose from and to read on one screen."""

LEAST_DRAFTS = 2
"""Drafts that are asked for even when the queue is full: a verdict may have opened something better."""

CAUSES = (
    EventKind.EXPERIMENT_JUDGED,
    EventKind.CAMPAIGN_BASELINE,
    EventKind.DIRECTIVE_GIVEN,
    EventKind.DIRECTIVE_LIFTED,
    EventKind.NOTE_ADDED,
    EventKind.CAMPAIGN_RESUMED,
    EventKind.HYPOTHESIS_WITHDRAWN,
    EventKind.HYPOTHESIS_PROPOSED,
    EventKind.HYPOTHESIS_REQUEUED,
)
"""Events after which the queue is ranked again; where several came, the first of this list is the cause."""

TOLD = (*CAUSES, EventKind.HYPOTHESIS_PREREGISTERED)
"""Events that a ranking may name as its cause. What goes to its test leaves the queue, which is not ranked
again for that alone."""


def newest_cause(session: Session, campaign_id: int) -> int:
    """Id of the newest event that may change the order, 0 when there is none."""
    kinds = [kind.value for kind in CAUSES]
    query = select(func.coalesce(func.max(Event.id), 0))
    return session.execute(query.where(Event.campaign_id == campaign_id, Event.kind.in_(kinds))).scalar_one()


def read_directives(session: Session, campaign_id: int) -> tuple[Directive, ...]:
    """The user's steering that holds, as the ranking reads it."""
    rows = session.scalars(
        select(DirectiveRow)
        .where(DirectiveRow.campaign_id == campaign_id, DirectiveRow.active)
        .order_by(DirectiveRow.id)
    )
    return tuple(_directive(row) for row in rows)


def _directive(row: DirectiveRow) -> Directive:
    value, allowed = row.value or {}, stored_allowance(row)
    return Directive(
        kind=row.kind,
        event_id=row.event_id,
        who="you",
        when=format_utc(row.created_at),
        lever=row.lever,
        hypothesis_id=row.hypothesis_id,
        ahead=frozenset(value.get(steering.AHEAD, ())),
        up_to_s=float(value.get(UP_TO_S, math.inf)),
        tests=allowed.tests,
        time_s=allowed.time_s,
        share=allowed.share,
    )


def proposals(desk: Desk, model: Proposer | None = None) -> list[Draft]:
    """What the campaign's proposers would test next, each asked for as much as its hit rate earns it.

    Nothing that a finding of this very scope rules out. `model` brings what a language model answered. On
    made-up weights nothing but claims on time.
    """
    facts = desk.facts
    waiting = sum(not each.target for each in facts.queue)
    wanted = QUEUE_TARGET - (waiting - len(desk.leaving) - _set_aside(desk))

    def keeps(draft: Draft) -> bool:
        """Whether it may be judged here, and no verdict speaks against it already."""
        judged = judged_here(facts.spec, draft.metric or facts.objective)
        return judged and desk.spoken_against(draft.control, draft.candidate) is None

    named = [each for each in facts.spec.proposers if model is None or each != model.name]
    proposers = [load_proposer(name) for name in named]
    if model is not None:
        proposers.append(model)
    return ask(desk.view, proposers, max(LEAST_DRAFTS, wanted), facts.records, keeps)


def _set_aside(desk: Desk) -> int:
    """How many wait for approval, or are held back by a cap, and are therefore not counted as waiting to be
    tested: others are to be there beside them. So many at most, that what nobody approves does not pile
    up."""
    capped = any(each.kind == DirectiveKind.CAP for each in desk.directives)
    if desk.approve_above_s == math.inf and not capped:
        return 0
    aside = sum(
        (p.awaits_approval or p.capped_by is not None) and p.hypothesis_id not in desk.leaving
        for p in desk.here.places
    )
    return min(aside, QUEUE_TARGET)


def take_in(session: Session, desk: Desk, drafts: Sequence[Draft]) -> None:
    """Withdraw what the agent would not propose now, and write the drafts down as queued or refused, or tell
    how many of them are left out because nothing is expected of them."""
    for hypothesis_id, why in desk.leaving.items():
        steering.withdraw_proposal(session, hypothesis_id, why)
    sifted = sift(desk, drafts)
    if sifted.left_out:
        events.append(
            session,
            EventKind.DRAFTS_LEFT_OUT,
            sifted.words,
            campaign_id=desk.facts.id,
            data={"drafts": [each.claim for each in sifted.left_out]},
        )
    for draft in sifted.kept:
        try:
            accept(session, desk.facts.id, with_reason(desk, draft), desk.facts.spec.plan.metric, desk.space)
        except Duplicate as known:
            if draft.from_model is not None:
                # a proposer may repeat itself; a model is answered, as a person is
                refuse(session, desk.facts.id, draft, str(known))
        except UsageError as error:
            refuse(session, desk.facts.id, draft, str(error))


def with_reason(desk: Desk, draft: Draft) -> Draft:
    """The draft, with why it is tested where a finding of another scope speaks against it, or one of versions
    that are no longer here for it."""
    said = why_again(desk.facts, draft.control, draft.candidate, desk.trust)
    if not said or said in draft.rationale:
        return draft
    return replace(draft, rationale=f"{draft.rationale} {said}.".strip())


def rank_queue(session: Session, desk: Desk) -> int:
    """Write the order, its reasons and its moves; returns the id of the last event it knows of."""
    last_ranked = session.scalars(
        select(Event)
        .where(Event.campaign_id == desk.facts.id, Event.kind == EventKind.QUEUE_RANKED.value)
        .order_by(Event.id.desc())
        .limit(1)
    ).first()
    rows = {
        row.id: row
        for row in session.scalars(select(Hypothesis).where(Hypothesis.campaign_id == desk.facts.id))
    }
    previous = _previous(last_ranked, rows)
    since = events.read(
        session, 0 if last_ranked is None else last_ranked.id, kinds=TOLD, campaign_id=desk.facts.id
    )
    cause = _cause(since) or _latest(session, desk.facts.id)
    ranking = desk.ranking
    left = set(previous.order).difference(ranking.order)
    found = moves(previous, ranking, cause, _steering(since), _gone([rows[number] for number in left]))
    queued = {each.id: each for each in desk.facts.queue}
    tell_carried(session, desk)
    for place in ranking.places:
        row = rows[place.hypothesis_id]
        if row.state in (HypothesisState.QUEUED, HypothesisState.PROPOSED):
            if place.awaits_approval and not awaits_approval(row):
                _ask(session, desk, row, place)
            row.rank, row.score, row.rank_reason = place.place, place._asdict(), place.reason
            if place.place <= MOST_EXPLAINED and desk.facts.carried and not place.target:
                more = rests_on(desk, queued[row.id]).rstrip(".")  # a reason has no stop at its end
                row.rank_reason = f"{place.reason.rstrip('.')}. {more}" if more else place.reason
    if not found and last_ranked is not None:
        return events.last_id(session)
    shown = [
        f"{format_label(Noun.HYPOTHESIS, each.hypothesis_id)} "
        + moved_words(each.from_place, each.to_place, each.reason.removesuffix(after_words(cause)))
        for each in found
        if each.to_place is not None
    ]
    ranking_id = events.append(
        session,
        EventKind.QUEUE_RANKED,
        f"Ranked {counted(len(ranking.places), 'hypothesis', 'hypotheses')} after {cause.text}"
        f"{_moved(found)}",
        campaign_id=desk.facts.id,
        data={"order": list(ranking.order), "cause_event_id": cause.event_id, "told": shown[:10]},
    )
    session.add_all(
        Move(
            event_id=each.event_id,
            ranking_event_id=ranking_id,
            hypothesis_id=each.hypothesis_id,
            from_rank=each.from_place,
            to_rank=each.to_place,
            reason=each.reason,
        )
        for each in found
    )
    return ranking_id


def _ask(session: Session, desk: Desk, row: Hypothesis, place: Place) -> None:
    """Say that a hypothesis waits for the user from now on, with its quote."""
    label = format_label(Noun.HYPOTHESIS, row.id)
    events.append(
        session,
        EventKind.HYPOTHESIS_WAITS,
        f"Waits for your approval: {quote_words(place.cost_s, place.most_s)}. "
        f"Approve it with: autoinfer approve {label}",
        label,
        desk.facts.id,
        {"cost_s": place.cost_s, "most_s": place.most_s, "approve_above_s": desk.approve_above_s},
    )


def _previous(last_ranked: Event | None, rows: dict[int, Hypothesis]) -> Ranking:
    """The ranking before, from its event and the places that the hypotheses remember."""
    order = [] if last_ranked is None or last_ranked.data is None else last_ranked.data.get("order", [])
    scores = [rows[number].score for number in order if number in rows]
    return Ranking(tuple(Place(**score) for score in scores if score is not None))


def _gone(rows: Sequence[Hypothesis]) -> dict[int, str]:
    """What became of those that left the queue, in a few words."""
    return {row.id: _became(row) for row in rows}


def _became(row: Hypothesis) -> str:
    if row.state is HypothesisState.WITHDRAWN:
        return f"withdrawn ({(row.state_reason or 'no reason is told').rstrip('.')})"
    if row.state is HypothesisState.CONFOUNDED and row.preregistration_digest is None:
        return "set aside, for its test would be confounded"
    return "under test" if row.state is HypothesisState.TESTING else "tested"


def _cause(since: Sequence[Event]) -> Cause | None:
    """What to name as the cause: the weightiest kind of event since the last ranking, its newest one.

    That a campaign was resumed moves nothing by itself: what came before, and was not ranked any more, does.
    """
    if not since:
        return None
    weight = {kind.value: at for at, kind in enumerate(TOLD)}
    chosen = min(since, key=lambda event: (weight[event.kind], -event.id))
    if chosen.kind == EventKind.CAMPAIGN_RESUMED.value:
        before = _cause([event for event in since if event.id < chosen.id])
        if before is not None:
            return before
    return Cause(chosen.id, _words(chosen))


def _latest(session: Session, campaign_id: int) -> Cause:
    last = events.latest(session, 1, campaign_id=campaign_id)[0]
    return Cause(last.id, _words(last))


def _steering(since: Sequence[Event]) -> Steering:
    """What the user said since the last ranking, by the hypotheses that it is about."""
    of_hypothesis: dict[int, Cause] = {}
    newest, given = None, set[int]()
    for event in since:
        if event.kind in (EventKind.DIRECTIVE_GIVEN.value, EventKind.DIRECTIVE_LIFTED.value):
            newest = Cause(event.id, _words(event))
            given.add(event.id)
            about = (event.data or {}).get("hypothesis_id")
            if about is not None:
                of_hypothesis[int(about)] = newest
    return Steering(of_hypothesis, newest, frozenset(given))


def _words(event: Event) -> str:
    """An event in a few words, for the end of a reason."""
    data = event.data or {}
    match event.kind:
        case EventKind.EXPERIMENT_JUDGED.value:
            return f"{event.subject} was {data.get('outcome', 'judged')}"
        case EventKind.CAMPAIGN_BASELINE.value:
            return f"{event.subject} found the baseline"
        case EventKind.HYPOTHESIS_PROPOSED.value:
            who = "you" if data.get("proposer") == USER else str(data.get("proposer", "the agent"))
            return f"{event.subject} came from {author_words(who)}"
        case EventKind.HYPOTHESIS_WITHDRAWN.value:
            return f"{event.subject} was withdrawn"
        case EventKind.CAMPAIGN_RESUMED.value:
            return "the campaign was resumed and all was counted anew"
        case EventKind.HYPOTHESIS_PREREGISTERED.value:
            return f"{event.subject} went to its test"
        case EventKind.DIRECTIVE_GIVEN.value | EventKind.DIRECTIVE_LIFTED.value:
            whose = "directive" if events.BY in data else "your directive"
            return f"{whose}: {event.text.rstrip('.')}"
        case _:
            return event.text.rstrip(".")


def _moved(found: Sequence[Moved]) -> str:
    """How many came, went and changed their places, behind what a ranking's event says."""
    counts = {
        "entered": sum(each.from_place is None for each in found),
        "left": sum(each.to_place is None for each in found),
        "moved": sum(None not in (each.from_place, each.to_place) for each in found),
    }
    told = [f"{count} {what}" for what, count in counts.items() if count]
    return f"; {listed(told)}" if told else ""

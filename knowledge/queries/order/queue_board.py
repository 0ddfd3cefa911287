"""The queue as a board: its order within the budget, what moved it, and the steering that holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import Field
from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session, aliased

from db.campaign_owner import is_driven
from db.event_kinds import EventKind
from db.events import of_kind
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Directive, Event, Hypothesis, Move
from db.states import CampaignState, DirectiveKind, HypothesisState
from knowledge.acts.allowances import ALLOTTING
from knowledge.acts.approvals import AWAITS, approve_above_s
from knowledge.latency_only import latency_only
from knowledge.queries.bests import BestView, bests
from knowledge.queries.campaigns import DirectiveView, directive_view
from knowledge.queries.found.shaken import shaken_labels
from knowledge.queries.order.lever_use import lever_use
from knowledge.queries.order.night import QuestionView, question_now
from knowledge.queries.order.queue import QueueRow, queue_page
from knowledge.queries.spent.paid import PaidJobView, paid_now
from knowledge.queries.view import Page, View
from knowledge.stored import number

MOST_DIRECTIVES = 50
"""Directives shown, the newest; a campaign is steered by few."""

EXPERIMENTS = re.compile(r"\bE-\d{4,9}\b")
"""Labels of experiments in a reason."""

WAITING = (HypothesisState.PROPOSED, HypothesisState.QUEUED)


class QueueCampaign(View):
    """The campaign of a queue; times in seconds. `driven` tells whether a process takes the next one,
    `latency_only` that its weights are made up."""

    id: str
    name: str
    space: str
    state: CampaignState
    driven: bool
    has_baseline: bool
    budget_s: float
    spent_s: float
    approve_above_s: float | None
    latency_only: bool

    @property
    def left_s(self) -> float:
        """What is left of the budget."""
        return max(0.0, self.budget_s - self.spent_s)


class RankedView(View):
    """The last ranking, and the event that it was made after."""

    event_id: int
    at: datetime
    cause_event_id: int | None
    cause: str | None
    cause_subject: str | None


class MoveView(View):
    """One change of a place; a rank is empty on the side where it was not in the queue."""

    id: int
    at: datetime
    hypothesis: str
    from_rank: int | None
    to_rank: int | None
    reason: str
    cause_event_id: int


class ActView(View):
    """The newest thing that somebody did to the queue by hand."""

    event_id: int
    text: str


class QueueBoard(View):
    """A page of the queue, and what stands around it.

    `fit` and `planned_s` count what the budget bears in this order, from the first on, without what waits for
    approval, which `awaiting` counts; `cut` is the place of the first that it does not bear; `waiting` counts
    all that wait. `levers` counts them by lever. `put` are the places of moves that the next ranking will
    make. `used` says by directive how far caps and minimum shares are. `paid` are its jobs that wait or run
    on rented machines, `question` is the question of the night. `elsewhere` counts what waits to be
    confirmed on another target, without approvals, where an hour counts as `usd_per_hour`. `best` is
    the experiment that made the best so far, `doubts` say of it and of those that reasons name what speaks
    against them by now.
    """

    campaign: QueueCampaign
    rows: Page[QueueRow]
    waiting: int
    awaiting: int
    fit: int
    planned_s: float
    cut: int | None
    levers: tuple[tuple[str, int], ...]
    ranked: RankedView | None
    moves: Page[MoveView]
    directives: tuple[DirectiveView, ...]
    put: dict[str, int]
    used: dict[str, str]
    moved: tuple[str, ...]
    last_act: ActView | None
    paid: tuple[PaidJobView, ...] = ()
    question: QuestionView | None = None
    elsewhere: int = 0
    usd_per_hour: float | None = None
    best: str | None = None
    doubts: dict[str, str] = Field(default_factory=dict)


def queue_board(
    session: Session,
    campaign_id: int,
    *,
    limit: int,
    offset: int = 0,
    lever: str | None = None,
    text: str | None = None,
    awaiting: bool = False,
    most_moves: int,
) -> QueueBoard:
    """Read the queue of a campaign that exists; the number of statements does not grow with it."""
    campaign = session.get_one(Campaign, campaign_id)
    shown = QueueCampaign(
        id=format_label(Noun.CAMPAIGN, campaign_id),
        name=campaign.name,
        space=str(campaign.spec.get("space", "reference")),
        state=campaign.state,
        driven=is_driven(session, campaign),
        has_baseline=campaign.baseline_configuration_id is not None,
        budget_s=float(campaign.budget["wall_s"]),
        spent_s=float(campaign.budget.get("spent_s", 0.0)),
        approve_above_s=approve_above_s(campaign.budget),
        latency_only=latency_only(campaign.spec),
    )
    ranked = _ranked(session, campaign_id)
    within = _within(session, campaign_id, shown.left_s)
    rows = queue_page(
        session, campaign_id, limit=limit, offset=offset, lever=lever, text=text, awaiting=awaiting
    )
    held = _directives(session, campaign_id)
    moves = queue_moves(session, campaign_id, limit=most_moves)
    best = bests(session, [campaign_id]).get(campaign_id)
    hands = [(each, view) for each, view in held if each.kind is DirectiveKind.PRIORITY and view.hypothesis]
    return QueueBoard(
        campaign=shown,
        rows=rows,
        waiting=within.waiting,
        awaiting=within.awaiting,
        fit=within.fit,
        planned_s=within.planned_s,
        cut=within.cut,
        elsewhere=within.elsewhere,
        levers=_levers(session, campaign_id),
        ranked=ranked,
        moves=moves,
        directives=tuple(view for _, view in held),
        put={
            str(view.hypothesis): int((each.value or {}).get("place", 1))
            for each, view in hands
            if ranked is None or each.event_id > ranked.event_id
        },
        used=_used(session, campaign_id, [each for each, _ in held]),
        moved=tuple(str(view.hypothesis) for _, view in hands),
        last_act=last_act(session, campaign_id),
        paid=paid_now(session, campaign),
        question=question_now(session, campaign_id),
        usd_per_hour=number(campaign.spec.get("usd_per_hour")),
        best=None if best is None else best.experiment,
        doubts=_doubts(session, best, rows.items, moves.items),
    )


def _doubts(
    session: Session, best: BestView | None, rows: Sequence[QueueRow], moves: Sequence[MoveView]
) -> dict[str, str]:
    """What speaks against the best and against supported tests that reasons name, by label."""
    reasons = [*(f"{each.move_reason} {each.reason}" for each in rows), *(each.reason for each in moves)]
    named = {label for each in reasons for label in EXPERIMENTS.findall(each)}
    if best is not None and best.experiment is not None:
        named.add(best.experiment)
    return shaken_labels(session, [parse_label_of(Noun.EXPERIMENT, each) for each in named])


def queue_moves(session: Session, campaign_id: int, *, limit: int, offset: int = 0) -> Page[MoveView]:
    """Every change of a place that was ever made in a campaign's queue, newest first."""
    mine = Hypothesis.campaign_id == campaign_id
    newest_first = Hypothesis.campaign_id + 0 == campaign_id  # the sum: to walk through moves, not hypotheses
    query = (
        select(Move, Event.at)
        .join(Hypothesis, Hypothesis.id == Move.hypothesis_id)
        .join(Event, Event.id == Move.ranking_event_id)
        .where(newest_first)
        .order_by(Move.ranking_event_id.desc(), Move.to_rank.nulls_last(), Move.id)
        .limit(limit)
        .offset(offset)
    )
    total = select(func.count(Move.id)).join(Hypothesis, Hypothesis.id == Move.hypothesis_id).where(mine)
    items = tuple(
        MoveView(
            id=move.id,
            at=at,
            hypothesis=format_label(Noun.HYPOTHESIS, move.hypothesis_id),
            from_rank=move.from_rank,
            to_rank=move.to_rank,
            reason=move.reason,
            cause_event_id=move.event_id,
        )
        for move, at in session.execute(query)
    )
    return Page[MoveView](items=items, total=session.scalar(total) or 0, limit=limit, offset=offset)


def last_act(session: Session, campaign_id: int) -> ActView | None:
    """What somebody last did to a campaign's queue by hand; two who act on one view are told apart by it."""
    by_hand = Event.data["by"].as_string() != "agent"
    newest = [
        select(func.max(Event.id)).where(of_kind(kind, campaign_id), *also).scalar_subquery()
        for kind, also in (
            (EventKind.DIRECTIVE_GIVEN, ()),
            (EventKind.DIRECTIVE_LIFTED, ()),
            (EventKind.HYPOTHESIS_WITHDRAWN, (by_hand,)),
        )
    ]
    query = select(Event).where(or_(*(Event.id == each for each in newest)))
    found = session.scalars(query.order_by(Event.id.desc()).limit(1)).first()
    return None if found is None else ActView(event_id=found.id, text=found.text)


def last_ranking(session: Session, campaign_id: int) -> int:
    """Id of the event of the last ranking, 0 when there was none."""
    query = select(func.max(Event.id)).where(of_kind(EventKind.QUEUE_RANKED, campaign_id))
    return session.scalar(query) or 0


def _ranked(session: Session, campaign_id: int) -> RankedView | None:
    cause = aliased(Event)
    query = (
        select(Event, cause)
        .outerjoin(cause, cause.id == Event.data["cause_event_id"].as_integer())
        .where(of_kind(EventKind.QUEUE_RANKED, campaign_id))
        .order_by(Event.id.desc())
        .limit(1)
    )
    found = session.execute(query).first()
    if found is None:
        return None
    event, after = found
    return RankedView(
        event_id=event.id,
        at=event.at,
        cause_event_id=None if after is None else after.id,
        cause=None if after is None else after.text,
        cause_subject=None if after is None else after.subject,
    )


@dataclass(frozen=True)
class _Within:
    """What the budget bears; see `QueueBoard`."""

    waiting: int
    awaiting: int
    fit: int
    planned_s: float
    cut: int | None
    elsewhere: int = 0


def _within(session: Session, campaign_id: int, left_s: float) -> _Within:
    """How many from the first on the budget bears, their seconds, who comes first after them, how many
    wait for approval, and how many wait. What is for another target takes nothing of this one's time."""
    own = (Hypothesis.campaign_id == campaign_id) & Hypothesis.state.in_(WAITING)
    asks = Hypothesis.score[AWAITS].as_boolean().is_(True)
    cost = func.coalesce(Hypothesis.score["cost_s"].as_float(), 0.0)
    ranked = (
        select(Hypothesis.rank, func.sum(cost).over(order_by=Hypothesis.rank).label("by_then_s"))
        .where(
            own,
            Hypothesis.rank.is_not(None),
            Hypothesis.score["paused"].as_boolean().is_not(True),
            ~asks,
            Hypothesis.target == "",
        )
        .subquery()
    )
    fits = ranked.c.by_then_s <= left_s
    query = select(
        func.count().filter(fits),
        func.max(ranked.c.by_then_s).filter(fits),
        func.min(ranked.c.rank).filter(~fits),
    ).select_from(ranked)
    fit, planned_s, cut = session.execute(query).one()
    total, awaiting, there = session.execute(
        select(
            func.count(), func.count().filter(asks), func.count().filter(Hypothesis.target != "", ~asks)
        ).where(own)
    ).one()
    return _Within(total, awaiting, fit, planned_s or 0.0, cut, there)


def _levers(session: Session, campaign_id: int) -> tuple[tuple[str, int], ...]:
    query = (
        select(Hypothesis.lever, func.count())
        .where(Hypothesis.campaign_id == campaign_id, Hypothesis.state.in_(WAITING))
        .group_by(Hypothesis.lever)
        .order_by(func.count().desc(), Hypothesis.lever)
    )
    return tuple((lever, count) for lever, count in session.execute(query))


def _used(session: Session, campaign_id: int, held: Sequence[Directive]) -> dict[str, str]:
    """How far the caps and minimum shares are; nothing is asked where there are none."""
    counting = [each for each in held if each.kind in ALLOTTING]
    if not counting:
        return {}
    use = lever_use(session, campaign_id)
    return {format_label(Noun.DIRECTIVE, each.id): use.words(each) for each in counting}


def _directives(session: Session, campaign_id: int) -> list[tuple[Directive, DirectiveView]]:
    """What holds of levers, and of hypotheses that still wait, and the question of the night."""
    query = (
        select(Directive)
        .outerjoin(Hypothesis, Hypothesis.id == Directive.hypothesis_id)
        .where(
            Directive.campaign_id == campaign_id,
            Directive.active,
            Directive.hypothesis_id.is_(None)
            | Hypothesis.state.in_(WAITING)
            | (Directive.kind == DirectiveKind.QUESTION),
        )
        .order_by(Directive.id.desc())
        .limit(MOST_DIRECTIVES)
    )
    return [(each, directive_view(each)) for each in session.scalars(query)]

"""The queue: what comes next, with the reason for each place and the last move there."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from sqlalchemy import Select, Text, cast, func, select
from sqlalchemy.orm import Session, aliased, load_only

from db.labels import Noun, format_label
from db.models import Campaign, Configuration, Event, Hypothesis, Move
from db.models.base import JsonObject
from db.states import CampaignState, HypothesisState
from knowledge.acts.approvals import ApprovalView, approval_of, waits_in_queue
from knowledge.elsewhere import ElsewhereView, elsewhere_of
from knowledge.latency_only import latency_only
from knowledge.queries.at_work import Interrupted, in_a_word
from knowledge.queries.devices import devices_of_tests, held_tests
from knowledge.queries.ended_tests import EndedTest
from knowledge.queries.left_alone import left_alone
from knowledge.queries.order.missing_tools import MissingToolView, missing_tools
from knowledge.queries.view import (
    ChangeView,
    EffectView,
    Page,
    Predictions,
    View,
    changes_between,
    predicted_now,
    prediction_view,
    predictions,
)


class QueueRow(View):
    """A place in the queue; `moved_from` is the rank before the last move, with the event that caused it,
    `device` where it is under test, `elsewhere` the other target that it is for, if it is for one. `held`
    says of a test that was sent to rented machines why it is not submitted, `interrupted` of one that began
    that nobody measures it any more, `ended` that its test has ended and its campaign is to conclude from it.
    `missing` are the tools that were not there to make it when its campaign was last started.
    `latency_only`: the weights of its campaign are made up. `predicted` was when it was proposed, or is what
    was sealed for its test; `predicted_now` is by the belief that it is ranked by, where that is known."""

    rank: int | None
    id: str
    claim: str
    lever: str
    change: tuple[ChangeView, ...]
    predicted: EffectView | None
    min_effect: float
    reason: str | None
    score: JsonObject | None
    pinned: bool
    proposer: str
    state: HypothesisState
    latency_only: bool
    moved_from: int | None
    move_reason: str | None
    cause_event_id: int | None
    cause: str | None
    cause_subject: str | None = None
    approval: ApprovalView | None = None
    device: str | None = None
    elsewhere: ElsewhereView | None = None
    held: str | None = None
    interrupted: Interrupted | None = None
    ended: EndedTest | None = None
    missing: tuple[MissingToolView, ...] = ()
    predicted_now: EffectView | None = None

    @property
    def predictions(self) -> Predictions:
        """What is predicted of it, as it is shown."""
        return predictions(self.state, self.predicted, self.predicted_now)

    @property
    def standing(self) -> str:
        """Its state in a word, which is another one where its test was interrupted or has ended."""
        return in_a_word(self.state.value, self.interrupted, self.ended)


def awaits_baseline(session: Session, campaign_id: int) -> bool:
    """Whether a campaign, which must exist, goes on and has no baseline yet, before which nothing is
    proposed."""
    campaign = session.get_one(Campaign, campaign_id)
    return campaign.baseline_configuration_id is None and campaign.state is not CampaignState.STOPPED


def queue_page(
    session: Session,
    campaign_id: int,
    *,
    limit: int,
    offset: int = 0,
    lever: str | None = None,
    text: str | None = None,
    awaiting: bool = False,
) -> Page[QueueRow]:
    """Return the queue of a campaign in its order: what is under test, then by rank, unranked last.

    `lever` keeps what changes that lever, `text` what says it in its claim or its knobs, `awaiting` what
    waits for approval.
    """
    waiting = (HypothesisState.TESTING, HypothesisState.QUEUED, HypothesisState.PROPOSED)
    where = (Hypothesis.campaign_id == campaign_id) & Hypothesis.state.in_(waiting)
    if lever is not None:
        where &= Hypothesis.lever == lever
    if text is not None:
        said = Hypothesis.claim.icontains(text, autoescape=True)
        where &= said | cast(Hypothesis.change, Text).icontains(text, autoescape=True)
    if awaiting:
        where &= waits_in_queue()
    order = (
        (Hypothesis.state == HypothesisState.TESTING).desc(),
        Hypothesis.rank.nulls_last(),
        Hypothesis.id,
    )
    chosen = select(Hypothesis.id).where(where).order_by(*order).limit(limit).offset(offset)
    total = session.scalar(select(func.count()).select_from(Hypothesis).where(where)) or 0
    numbers = session.scalars(chosen).all()
    tools = missing_tools(session.get_one(Campaign, campaign_id).spec)
    rows = session.execute(_rows().where(Hypothesis.id.in_(numbers)))
    found = {row[0].id: _row(*row, tools) for row in rows}
    testing = [number for number in numbers if found[number].state is HypothesisState.TESTING]
    held = held_tests(session, testing) if testing else {}
    for number, device in (devices_of_tests(session, testing) if testing else {}).items():
        found[number] = found[number].model_copy(update={"device": device, "held": held.get(number)})
    for number, told in left_alone(session, testing).items():
        found[number] = found[number].model_copy(update=told._asdict())
    items = tuple(found[number] for number in numbers)
    return Page[QueueRow](items=items, total=total, limit=limit, offset=offset)


@cache
def _rows() -> Select[Hypothesis, JsonObject, JsonObject, str | None, Move, str, str | None]:
    """Places of hypotheses, to be narrowed; built once, for that takes as long as running it."""
    control, candidate = aliased(Configuration), aliased(Configuration)
    weights = Campaign.spec["weights"].as_string()
    last_move = select(func.max(Move.id)).where(Move.hypothesis_id == Hypothesis.id)
    return (
        select(Hypothesis, control.knobs, candidate.knobs, weights, Move, Event.text, Event.subject)
        .options(load_only(*_SHOWN))
        .join(Campaign, Campaign.id == Hypothesis.campaign_id)
        .join(control, control.id == Hypothesis.control_configuration_id)
        .join(candidate, candidate.id == Hypothesis.candidate_configuration_id)
        .outerjoin(Move, Move.id == last_move.correlate(Hypothesis).scalar_subquery())
        .outerjoin(Event, Event.id == Move.event_id)
    )


_SHOWN = (
    Hypothesis.rank,
    Hypothesis.claim,
    Hypothesis.lever,
    Hypothesis.prediction,
    Hypothesis.metric,
    Hypothesis.min_effect,
    Hypothesis.rank_reason,
    Hypothesis.score,
    Hypothesis.pinned,
    Hypothesis.proposer,
    Hypothesis.state,
    Hypothesis.target,
)
"""What a row reads: the others are long, and JSON takes time to be read."""


def _row(
    hypothesis: Hypothesis,
    control: JsonObject,
    candidate: JsonObject,
    weights: str | None,
    move: Move | None,
    cause: Any,
    cause_subject: Any,
    tools: Iterable[MissingToolView],
) -> QueueRow:
    change, elsewhere = changes_between(control, candidate), elsewhere_of(hypothesis)
    made_here = hypothesis.state is not HypothesisState.TESTING and elsewhere is None
    levers = {each.knob.partition(".")[0] for each in change}
    return QueueRow(
        rank=hypothesis.rank,
        id=format_label(Noun.HYPOTHESIS, hypothesis.id),
        claim=hypothesis.claim,
        lever=hypothesis.lever,
        change=change,
        predicted=prediction_view(hypothesis.prediction, hypothesis.metric),
        min_effect=hypothesis.min_effect,
        reason=hypothesis.rank_reason,
        score=hypothesis.score,
        pinned=hypothesis.pinned,
        proposer=hypothesis.proposer,
        state=hypothesis.state,
        latency_only=latency_only({"weights": weights}),
        moved_from=None if move is None else move.from_rank,
        move_reason=None if move is None else move.reason,
        cause_event_id=None if move is None else move.event_id,
        cause=cause,
        cause_subject=cause_subject,
        approval=approval_of(hypothesis),
        elsewhere=elsewhere,
        predicted_now=predicted_now(hypothesis.state, hypothesis.score, hypothesis.metric),
        missing=tuple(tool for tool in tools if made_here and tool.is_needed_by(candidate, levers)),
    )

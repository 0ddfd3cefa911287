"""What a campaign validates now and what it has settled, in words and rows; quick however much was tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache

from sqlalchemy import Select, bindparam, func, select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Campaign, Hypothesis, Verdict
from db.states import HypothesisState
from knowledge.figures import counted, listed
from knowledge.latency_only import latency_only
from knowledge.queries.claims.hypotheses import FIRST_VERDICT, hypothesis_label
from knowledge.queries.facts import coming_next, under_test
from knowledge.queries.found.shaken import shaken
from knowledge.queries.view import EffectView, View, effect_view
from knowledge.telling.summary import validating
from knowledge.telling.summary_part import PartView

MOST_NAMED = 3
"""Hypotheses named of each group; the list has the rest."""


class Group(StrEnum):
    """States that mean the same to a reader."""

    ACTIVE = "active"
    SUPPORTED = "supported"
    RULED_OUT = "ruled-out"
    OPEN = "open"
    WITHDRAWN = "withdrawn"


GROUPS: Mapping[Group, tuple[HypothesisState, ...]] = {
    Group.ACTIVE: (HypothesisState.PROPOSED, HypothesisState.QUEUED, HypothesisState.TESTING),
    Group.SUPPORTED: (HypothesisState.SUPPORTED,),
    Group.RULED_OUT: (HypothesisState.REFUTED, HypothesisState.INFEASIBLE),
    Group.OPEN: (HypothesisState.INCONCLUSIVE, HypothesisState.CONFOUNDED),
    Group.WITHDRAWN: (HypothesisState.WITHDRAWN,),
}


class SettledRow(View):
    """A hypothesis that was tested, in short; `doubt` is what speaks by now against a supported one."""

    id: str
    claim: str
    state: HypothesisState
    effect: EffectView | None
    experiment: str | None
    doubt: str | None = None


class StandingView(View):
    """What a campaign validates and has settled; `named` are the latest of each group. `latency_only`: its
    weights are made up."""

    campaign: str
    name: str
    model: str
    target: str
    latency_only: bool
    validating: PartView
    settled: str
    named: tuple[SettledRow, ...]


def standing(session: Session, campaign_id: int) -> StandingView:
    """Return what a campaign validates and has settled; it must exist."""
    campaign = session.get_one(Campaign, campaign_id)
    by_state = (
        select(Hypothesis.state, func.count())
        .where(Hypothesis.campaign_id == campaign_id)
        .group_by(Hypothesis.state)
    )
    counts = {state.value: count for state, count in session.execute(by_state)}
    return StandingView(
        campaign=format_label(Noun.CAMPAIGN, campaign_id),
        name=campaign.name,
        model=campaign.model,
        target=campaign.target,
        latency_only=latency_only(campaign.spec),
        validating=validating(under_test(session, campaign_id), coming_next(session, campaign_id), counts),
        settled=settled_sentence(counts),
        named=tuple(
            row
            for group in (Group.SUPPORTED, Group.RULED_OUT, Group.OPEN)
            for row in _latest(session, campaign_id, GROUPS[group])
        ),
    )


def settled_sentence(counts: Mapping[str, int]) -> str:
    """How many are supported, ruled out and still open, in a sentence; `counts` by state. Pure."""

    def told(group: Group, what: str) -> str:
        states = [state.value for state in GROUPS[group] if counts.get(state.value)]
        parts = [f"{counts[state]} {state}" for state in states] if len(states) > 1 else []
        return f"{sum(counts[state] for state in states)} {what}" + (f" ({listed(parts)})" if parts else "")

    if not any(counts.get(state.value) for group in _TESTED for state in GROUPS[group]):
        return "Nothing is settled yet."
    supported = counts.get(HypothesisState.SUPPORTED.value, 0)
    head = counted(supported, "hypothesis is", "hypotheses are") if supported else "None is"
    return f"{head} supported, {told(Group.RULED_OUT, 'ruled out')}, {told(Group.OPEN, 'still open')}."


_TESTED = (Group.SUPPORTED, Group.RULED_OUT, Group.OPEN)


def _latest(session: Session, campaign_id: int, states: Sequence[HypothesisState]) -> tuple[SettledRow, ...]:
    found = session.execute(_latest_of(tuple(states)), {"campaign_id": campaign_id}).all()
    supported = [test for _, _, state, _, test, *_ in found if state is HypothesisState.SUPPORTED]
    doubts = shaken(session, [each for each in supported if each is not None])
    return tuple(
        SettledRow(
            id=hypothesis_label(number),
            claim=claim,
            state=state,
            effect=effect_view(effect, low, high, metric),
            experiment=None if experiment is None else format_label(Noun.EXPERIMENT, experiment),
            doubt=doubts.get(experiment),
        )
        for number, claim, state, metric, experiment, effect, low, high in found
    )


@cache
def _latest_of(
    states: tuple[HypothesisState, ...],
) -> Select[int, str, HypothesisState, str, int, float | None, float | None, float | None]:
    """The hypotheses of a campaign that came into these states last; built once."""
    latest = (
        select(Hypothesis.id)
        .where(Hypothesis.campaign_id == bindparam("campaign_id"), Hypothesis.state.in_(states))
        .order_by(Hypothesis.state_changed_at.desc(), Hypothesis.id.desc())
        .limit(MOST_NAMED)
        .subquery()
    )
    columns = (Hypothesis.id, Hypothesis.claim, Hypothesis.state, Hypothesis.metric)
    effects = (Verdict.experiment_id, Verdict.effect_log, Verdict.interval_low_log, Verdict.interval_high_log)
    return (
        select(*columns, *effects)
        .join(latest, latest.c.id == Hypothesis.id)
        .outerjoin(Verdict, Verdict.id == FIRST_VERDICT)
        .order_by(Hypothesis.state_changed_at.desc(), Hypothesis.id.desc())
    )

"""Which test comes next, by the order on the desk and what is left to spend, or why none does. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agent.campaign.decision.desk import Desk
from agent.campaign.known.facts import Queued
from agent.campaign.known.incumbent import is_on
from agent.proposers.confirmation import PROPOSER as CONFIRMATION
from agent.proposers.draft import refuted_if
from agent.proposers.port import Draft
from agent.proposers.user import PROPOSER as USER
from agent.ranking.stopping import WORTH, is_worth_it, nothing_worth_it
from agent.ranking.values import Place
from agent.surrogate.levers import joined
from configs.quantities import format_duration
from db.labels import Noun, format_label
from db.states import DirectiveKind, HypothesisState
from knowledge.acts.approvals import quote_words
from knowledge.figures import metric_word
from knowledge.going_on import BUDGET_OF

NEARLY_AS_GOOD = 0.5
"""The least share of the first one's expected gain per second with which another may go before it, once."""

SOONER = 0.8
"""The most of the first one's time that such another may take: where it hardly comes sooner, nothing is shown
sooner by it; judgement."""

ROOM = 2
"""How many times over the time left has to pay for another and the first one, if that other is to go before:
before the first verdict what tests take is a guess, and the first one must not be lost for it."""

MOST_BROKEN = 2
"""Tests of the best against the baseline that may end without a word on the claim before none is begun any
more."""


@dataclass(frozen=True)
class Choice:
    """What to do next: test a queued hypothesis, accept and test a draft, wait for the user, or stop.

    `asks`: the draft is only put into the queue, where it waits for approval. `waits` are the hypotheses that
    wait for it where nothing else is left; `reason` says why to stop, or what is waited for.
    """

    hypothesis: Queued | None = None
    draft: Draft | None = None
    reason: str = ""
    asks: bool = False
    waits: tuple[int, ...] = ()


def choose(desk: Desk, left_s: float, *, flying: bool = False) -> Choice:
    """The best hypothesis that the budget still bears and that nobody has to approve first, the
    confirmation of the best, what to wait for, or why to stop.

    While tests are `flying` on other devices nothing but a hypothesis is chosen: their verdicts may
    change what is the best and what is worth its price, so the confirmation, and the end, come after.
    """
    budget = format_duration(desk.facts.spec.budget.wall_s)
    if left_s <= 0:
        return Choice(reason=f"{BUDGET_OF}{budget} is spent")
    confirmation, reserve_s = _saved_for(desk, left_s)
    trusted = desk.trusts_beliefs
    running = [place for place in desk.here.places if not place.paused]
    last = _queued_confirmation(desk)
    cheap = [place for place in running if place.cost_s <= left_s - reserve_s and place is not last]
    fitting = [place for place in cheap if not trusted or is_worth_it(place) or _is_user_s(desk, place)]
    free = [place for place in fitting if place.may_run]
    if free:
        return _pick(desk, free, left_s - reserve_s, reserve_s)
    if flying:
        return Choice(reason="the verdicts of what runs come first")
    waiting = [place for place in fitting if place.awaits_approval]
    last = last or (_twin(desk, confirmation) if confirmation is not None else None)
    if confirmation is not None and last is None:
        return Choice(draft=confirmation, asks=reserve_s > desk.approve_above_s)
    if confirmation is not None and last is not None:
        if last.may_run:
            return Choice(hypothesis=_queued(desk, last), reason="all that was to be tried before is")
        waiting += [last] if last.awaits_approval else []
    if waiting:
        return Choice(waits=tuple(place.hypothesis_id for place in waiting), reason=_left_to_approve(waiting))
    if any(place.early for place in fitting):
        return Choice(reason=_left_to_caps(fitting))
    ended = nothing_worth_it(desk.here)
    if ended is not None and (trusted or not running):
        return Choice(reason=ended[0].lower() + ended[1:].rstrip(".") + _bans_beside(desk))
    left = f"{BUDGET_OF}{budget} is nearly spent: {format_duration(left_s)} are left"
    return Choice(reason=f"{left}, and {none_of(len(running), fits=bool(cheap))}")


def none_of(count: int, *, fits: bool) -> str:
    """That none of so many in the queue is tested, as a clause: nothing that `fits` the time that is left is
    worth its price, or nothing fits."""
    if count == 1:
        only = "the only queued hypothesis"
        return (
            f"{only} fits into them but is not worth its price" if fits else f"{only} does not fit into them"
        )
    none = "that fits into them is worth its price" if fits else "fits into them"
    return f"none of {count} queued hypotheses {none}"


def fits_another(desk: Desk, left_s: float) -> bool:
    """Whether the time that is left bears a test of anything one knob from the best, beside the confirmation
    of the best that is saved for: of what is to be proposed nobody knows yet what it is."""
    _, reserve_s = _saved_for(desk, left_s)
    near = desk.space.neighbours(desk.incumbent.configuration)
    return any(desk.beliefs.cost_s(each) <= left_s - reserve_s for each in near)


def _saved_for(desk: Desk, left_s: float) -> tuple[Draft | None, float]:
    """The confirmation of the best with the seconds that are kept for it; None and 0 where there is none, or
    it can't be had any more."""
    confirmation = _confirmation(desk)
    reserve_s = 0.0 if confirmation is None else desk.beliefs.cost_s(confirmation.candidate)
    return (None, 0.0) if reserve_s > left_s else (confirmation, reserve_s)


def _pick(desk: Desk, fitting: list[Place], free_s: float, reserve_s: float) -> Choice:
    """The first in order that fits into `free_s`, which leaves `reserve_s`; before the first verdict the
    cheapest that is worth testing, and no less than `NEARLY_AS_GOOD` of the first, where it comes `SOONER`
    and the time pays for both with `ROOM`.

    A campaign's first experiment also shows that everything from launch to verdict works here, and
    a night is better not spent on finding out that it does not. Where a test of another campaign with
    this engine came to its verdict on this target that is known, and the first in order goes at once.
    """
    first = fitting[0]
    least = NEARLY_AS_GOOD * first.score
    worth = [place for place in fitting if place.worth >= WORTH and place.score >= least]
    shown = bool(desk.facts.trials) or desk.facts.worked_before
    if shown or first.is_wanted or not worth:
        return Choice(hypothesis=_queued(desk, first), reason=_why_before(desk, first, free_s, reserve_s))
    soonest = min(worth, key=lambda place: (place.cost_s, place.place))
    is_sooner = soonest.cost_s <= SOONER * first.cost_s
    if not is_sooner or ROOM * (soonest.cost_s + first.cost_s) > free_s:
        return Choice(hypothesis=_queued(desk, first), reason=_why_before(desk, first, free_s, reserve_s))
    return Choice(hypothesis=_queued(desk, soonest), reason="taken first because its verdict comes soonest")


def _queued_confirmation(desk: Desk) -> Place | None:
    """The confirmation of the best where it stands in the queue already, to be run last."""
    best = desk.incumbent.configuration
    found = {
        each.id
        for each in desk.facts.queue
        if each.proposer == CONFIRMATION and each.candidate == best and not each.pinned
    }
    return next((place for place in desk.here.places if place.hypothesis_id in found), None)


def _twin(desk: Desk, confirmation: Draft) -> Place | None:
    """Somebody else's proposal of what the confirmation would test, where it stands in the queue."""
    found = {
        each.id
        for each in desk.facts.queue
        if (each.control, each.candidate) == (confirmation.control, confirmation.candidate)
        and each.metric == desk.facts.objective
        and not each.target
    }
    return next((place for place in desk.here.places if place.hypothesis_id in found), None)


def _is_user_s(desk: Desk, place: Place) -> bool:
    return _queued(desk, place).proposer == USER


def _why_before(desk: Desk, chosen: Place, free_s: float, reserve_s: float) -> str:
    """Why something is tested before what stands ahead of it; empty where nothing does."""
    ahead = [each for each in desk.here.places if each.place < chosen.place and not each.paused]
    if not ahead:
        return ""
    kept = f" beside {format_duration(reserve_s)} to confirm the best" if reserve_s else ""
    ask = [each for each in ahead if each.awaits_approval]
    rest = [each for each in ahead if not each.awaits_approval]
    do = "do" if len(ahead) > 1 else "does"
    causes = (
        (f"wait{'' if len(ahead) > 1 else 's'} for approval", bool(ask)),
        ("may come only after others by a cap", any(each.early for each in rest)),
        (
            f"{do} not fit into the {format_duration(free_s)} that are left{kept}",
            any(each.cost_s > free_s and not each.early for each in rest),
        ),
        (f"{do} not pay", any(each.cost_s <= free_s and not each.early for each in rest)),
    )
    named = format_label(Noun.HYPOTHESIS, ahead[0].hypothesis_id)
    who = f"{named} and {len(ahead) - 1} more" if len(ahead) > 1 else named
    return f"taken before {who}, which {' or '.join(cause for cause, holds in causes if holds)}"


def _bans_beside(desk: Desk) -> str:
    """The bans that hold, as a clause, where nothing waits: what they cover is not even proposed."""
    if desk.here.places:
        return ""
    bans = [f"{each.lever} {each.cited()}" for each in desk.directives if each.kind is DirectiveKind.BAN]
    return f", since nothing is proposed of what is banned: {', '.join(bans)}" if bans else ""


def _queued(desk: Desk, place: Place) -> Queued:
    return next(each for each in desk.facts.queue if each.id == place.hypothesis_id)


def _confirmation(desk: Desk) -> Draft | None:
    """A direct test of the best against the baseline, where only a chain of steps supports it; none where
    that was tried, does not run, or broke twice."""
    baseline, best = desk.baseline_configuration, desk.incumbent
    if best.steps < 2 or any(
        (each.control, each.candidate) == (baseline, best.configuration)
        for each in desk.facts.trials
        if is_on(each, desk.facts.objective)
    ):
        return None
    arms = (baseline.digest, best.configuration.digest)
    before = [state for control, candidate, state in desk.facts.proposed if (control, candidate) == arms]
    if HypothesisState.INFEASIBLE in before or before.count(HypothesisState.INCONCLUSIVE) >= MOST_BROKEN:
        return None
    prediction = desk.beliefs.predict(baseline, best.configuration)
    share = -math.expm1(prediction.log_ratio_mean)
    levers = desk.space.levers_between(baseline, best.configuration)
    latency = metric_word(desk.facts.objective.value)
    return Draft(
        claim=f"Together the supported changes take {100 * share:.0f} % off the baseline's {latency}.",
        control=baseline,
        candidate=best.configuration,
        lever=joined(levers),
        prediction=prediction,
        min_effect=desk.facts.spec.plan.min_effect,
        refuted_if=refuted_if(desk.facts.spec.plan.min_effect),
        rationale=(
            f"Each of the {best.steps} steps was measured against the one before; this measures all of "
            "them against the baseline in one experiment."
        ),
        proposer=CONFIRMATION,
        parents=() if best.hypothesis_id is None else (best.hypothesis_id,),
    )


def _left_to_approve(waiting: Sequence[Place]) -> str:
    """What is waited for where nothing else is left, as a clause."""
    first, *others = (format_label(Noun.HYPOTHESIS, each.hypothesis_id) for each in waiting)
    quote = quote_words(waiting[0].cost_s, waiting[0].most_s)
    more = f" and {len(others)} more" if others else ""
    return f"nothing is left but what waits for your approval: {first} ({quote}){more}"


def _left_to_caps(fitting: Sequence[Place]) -> str:
    """Why to stop where caps of shares let nothing of what is left come next, as a clause."""
    early = [each for each in fitting if each.early]
    label = format_label(Noun.HYPOTHESIS, early[0].hypothesis_id)
    more = f" and {len(early) - 1} more" if len(early) > 1 else ""
    return (
        f"nothing is left that a cap lets come next: {label}{more} may come only after tests of other levers"
    )

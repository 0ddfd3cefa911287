"""The order of the queue: what is expected to pay most per second comes first. Pure.

    score = expected gain × P(quality holds) × P(it runs) / weighed seconds × factor of the directives
    weighed seconds = expected seconds there + 3600 · dollars / usd_per_hour + WAITING_COUNTS · wait
                      − what of building others share

The expected gain is E[max(0, 1 − r)] for r = TPOT of the candidate over the incumbent's, with log r normal:
only improvements count, because a candidate that is slower is simply not taken. So a wide belief is worth
more than a narrow one of the same mean: testing it can teach more. By what two launches of one configuration
differ nothing is won, so that part of the belief's spread is left out of the gain.

Tests of several targets stand in one queue, so their costs must be of one currency: the seconds that the
target is at work, the dollars it costs by what an hour is worth to the user, and the wait for it, which holds
up no device and delays one verdict only. Where all are for one target, dollars are so many for a second and
the wait is the same: neither would change the order, and both are left out.

What must be built and is not there (a checkpoint, compiled code) is shared in equal parts by all that wait
for it and are worth a test: one of them builds it, and it is there for the others. Equal parts are what the
Shapley value charges each where an artifact is paid for once, whoever uses it (Littlechild and Owen,
Management Science 20(3), 1973). The first to run takes all of the seconds all the same, and budgets, caps and
approvals count these.

A hypothesis on another metric than the objective makes no token faster; what it could save of its own metric
counts `OFF_OBJECTIVE` as much.

Order: what settles the question of the night first; then pinned hypotheses, as they were pinned; then what
the campaign's file asks, in its order and whatever it may pay, and what separates the causes of a confounded
test, which has cost its time and said nothing yet (what makes the same claim anew has the turn that was its),
and in its turn, one test in `DISPUTE_EVERY`, what takes a dispute between findings apart; then by score, with
another campaign's best before its own parts (`agent.ranking.wholes`); what a ban covers comes last and is
paused. A ban holds over a pin, since it says what must not run. Ties go to the lower hypothesis id. The order
depends on the set of candidates and directives alone, not on the order in which they are given.

Caps and minimum shares of levers change that order (`agent.ranking.shares`): a cap holds back what would
exceed it, a minimum share brings the first of its lever forward whenever it is behind.

What was moved by hand (a priority) is then taken out and put back behind as many as stood ahead of where it
was put and are still in the queue: others that end let it rise, and what comes later does not get ahead of
it. Pins stay before it and bans behind. Of two that were moved to one place the later move stands first.

What costs more than the user lets the campaign spend unasked waits for an approval, in its place: what comes
behind it is run meanwhile. An approval holds up to the cost that it was given for, and a pin is none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from agent.ranking.across import WAITING_COUNTS, across_words, elsewhere_reason, price_s, target_of
from agent.ranking.sentences import (
    allotment_reason,
    approval_reason,
    beside_reason,
    place_reason,
    price_reason,
    question_reason,
    saved_hundredths,
    sharing_reason,
    steered_reason,
)
from agent.ranking.shares import Allotted, Hold, Item, allot
from agent.ranking.sharing import shared_builds
from agent.ranking.stopping import WORTH
from agent.ranking.values import Candidate, Directive, Place, Ranking, Used, factors
from agent.ranking.wholes import before_their_parts, whole_reason
from configs.campaign import USD_PER_HOUR
from db.states import DirectiveKind
from knowledge.acts.allowances import ALLOTTING

FOCUS_FACTOR = 5.0
"""How much a focus multiplies a score: what is focused comes first unless something pays five times more."""

BOOST_FACTOR = 2.0
"""The same for a boost."""

OFF_OBJECTIVE = 0.1
"""How much a share saved of another metric, such as bytes, counts beside the same share of the objective."""

LEAST_COST_S = 1e-3
"""Costs are not taken below this, so that a score stays finite."""

LEAST_SD = 1e-9
"""A standard deviation up to this counts as none, before a quotient by it overflows."""

QUESTION, PINNED, DUE, SCORED, BANNED = range(5)
"""The groups of the order, first to last."""

MOVABLE = (DUE, SCORED)
"""The groups in which a move by hand counts."""

NOTHING_USED = Used()
NO_BUILDS: Mapping[str, float] = {}
"""What is built on another target is charged there."""

Array = npt.NDArray[np.float64]


def expected_gain(mean: Array, sd: Array) -> Array:
    """E[max(0, 1 − eᴸ)] for L normal: the expected share of TPOT saved, in [0, 1).

    The value of a put option with strike 1 (Black and Scholes 1973, without discount):
    Φ(−m/s) − e^(m + s²/2) · Φ(−m/s − s); up to `LEAST_SD` it is max(0, 1 − eᵐ).
    """
    spread_out = sd > LEAST_SD
    safe = np.where(spread_out, sd, 1.0)
    ratio = -mean / safe
    spread = ndtr(ratio) - np.exp(mean + sd * sd / 2) * ndtr(ratio - sd)
    return np.maximum(0.0, np.where(spread_out, spread, -np.expm1(mean)))


def rank(
    candidates: Sequence[Candidate],
    directives: Sequence[Directive] = (),
    previous_order: Sequence[int] = (),
    approve_above_s: float = math.inf,
    used: Used = NOTHING_USED,
    usd_per_hour: float = USD_PER_HOUR,
) -> Ranking:
    """Put the queue in order. Raises `ValueError` for a hypothesis that is given twice.

    `previous_order` are the hypotheses in the order before; it changes no place, and is kept as `came_from`.
    What is expected to cost more than `approve_above_s` keeps its place and waits for the user's approval;
    what is paid in dollars is approved by its price instead. `used` is what caps and minimum shares count
    from, which are about the campaign's own target. An hour is worth `usd_per_hour` dollars.
    """
    if not candidates:
        return Ranking()
    ids = np.array([candidate.hypothesis_id for candidate in candidates])
    if len(set(ids.tolist())) != len(ids):
        raise ValueError("a hypothesis may stand in the queue once only")
    mean, sd, quality, feasible, cost = np.array(
        [(c.log_ratio_mean, c.log_ratio_sd, c.p_quality, c.p_feasible, c.cost_s) for c in candidates]
    ).T
    counts = np.array([1.0 if c.metric is None else OFF_OBJECTIVE for c in candidates])
    between = np.array([c.launches_sd_log for c in candidates])
    gain = expected_gain(mean, np.sqrt(np.maximum(sd * sd - between * between, 0.0))) * counts
    cited = {levers: factors(directives, levers) for levers in {c.levers for c in candidates}}
    factors_of = {levers: _factor(given) for levers, given in cited.items()}
    steered = {levers: steered_reason(given, factors_of[levers]) for levers, given in cited.items()}
    factor = np.array([factors_of[c.levers] for c in candidates])
    pins = _pins(candidates, directives)
    bans = {levers: _ban(directives, levers) for levers in cited}
    group = np.array([_group(c, pins, bans) for c in candidates])
    worthy = gain * quality * feasible >= WORTH
    uses = (group != BANNED) & (worthy | (group != SCORED))
    builds = [each.builds_s if each.there is None else NO_BUILDS for each in candidates]
    shared = shared_builds(builds, uses.tolist())
    spared = np.array([each.spared_s for each in shared])
    weighed = np.maximum(_weighed_s(candidates, cost, usd_per_hour) - spared, LEAST_COST_S)
    score = gain * quality * feasible / weighed * factor
    turn = np.array([_turn(c, pins) for c in candidates])
    # the last key of lexsort is the first to decide
    by_score = np.lexsort((ids, -score, turn, group)).tolist()
    groups = group.tolist()
    hands = _of_hypotheses(directives, DirectiveKind.PRIORITY)
    scored = [groups[k] == SCORED and each.hypothesis_id not in hands for k, each in enumerate(candidates)]
    by_score, passed = before_their_parts(by_score, candidates, score.tolist(), scored)
    approvals = _of_hypotheses(directives, DirectiveKind.APPROVAL)
    asked = _of_question(directives)
    moved = _with_moves(by_score, ids.tolist(), groups, hands)
    running, banned = _apart(moved, groups)
    own = [k for k in running if candidates[k].there is None]
    allotted = _allotted(own, candidates, groups, hands, directives, used)
    at = {k: each for each, k in enumerate(own)}
    turns = iter(own[k] for k in allotted.order)
    merged = [k if candidates[k].there is not None else next(turns) for k in running]
    order = [k for k in merged if at.get(k) not in allotted.held]
    order += [k for k in merged if at.get(k) in allotted.held] + banned
    before = {hypothesis: place for place, hypothesis in enumerate(previous_order, start=1)}
    gains, scores, weights, costs = gain.tolist(), score.tolist(), factor.tolist(), weighed.tolist()
    share = np.array([c.metric is not None and c.metric.is_share for c in candidates])
    saved = saved_hundredths(mean, sd, share)
    worth = (gain * quality * feasible * factor).tolist()
    across = across_words(order, candidates, costs, worth, scored, usd_per_hour)
    allotments: dict[tuple[int, ...], str] = {}
    places = []
    for place, k in enumerate(order, start=1):
        candidate = candidates[k]
        pin = pins.get(candidate.hypothesis_id)
        ban = bans[candidate.levers]
        hand = hands.get(candidate.hypothesis_id) if hands and groups[k] in MOVABLE else None
        own_turn = at.get(k, -1)
        cap, early = allotted.held.get(own_turn), allotted.early.get(own_turn)
        reserve, question = allotted.reserved.get(own_turn), asked if groups[k] == QUESTION else None
        there = candidate.there
        asks = candidate.cost_s > approve_above_s and (there is None or candidate.usd is None)
        approval = _approval(candidate, approvals) if asks else None
        covered = approval is not None and candidate.cost_s <= approval.up_to_s
        why = place_reason(place, candidate, saved[k], steered[candidate.levers], pin, ban, hand)
        why += "" if question is None else question_reason(question)
        if cap is not None or early is not None or reserve is not None:
            key = tuple(0 if each is None else each.event_id for each in (cap, early, reserve))
            if key not in allotments:
                allotments[key] = allotment_reason(cap, early, reserve, used)
            why += allotments[key]
        if k in passed:
            why += whole_reason(passed[k], candidates)
        if candidate.beside is not None:
            why += beside_reason(candidate.beside)
        if shared[k].others:
            why += sharing_reason(shared[k])
        why += "" if there is None else elsewhere_reason(there, candidate, costs[k], usd_per_hour)
        why += "" if candidate.usd is None else price_reason(candidate.usd, gains[k])
        places.append(
            Place(
                candidate.hypothesis_id,
                place,
                scores[k],
                gains[k],
                candidate.p_quality,
                candidate.p_feasible,
                candidate.cost_s,
                weights[k],
                pin is not None,
                ban is not None or cap is not None,
                before.get(candidate.hypothesis_id),
                why
                + (approval_reason(candidate.cost_s, approve_above_s, approval, covered) if asks else "")
                + across[place - 1],
                candidate.is_due,
                None if hand is None else hand.event_id,
                candidate.most_s,
                asks and not covered and ban is None and cap is None,
                approval.event_id if covered and approval is not None else None,
                None if cap is None else cap.event_id,
                None if reserve is None else reserve.event_id,
                None if question is None else question.event_id,
                early is not None,
                reserve is not None and at[k] in allotted.owed,
                costs[k],
                candidate.usd,
                0.0 if there is None else there.wait_s,
                0.0 if there is None else there.build_s,
                "" if there is None else there.target,
                shared[k].spared_s,
                candidate.log_ratio_mean,
                candidate.log_ratio_sd,
            )
        )
    return Ranking(tuple(places))


def _weighed_s(candidates: Sequence[Candidate], cost: Array, usd_per_hour: float) -> Array:
    """What tests cost in one currency, seconds; the expected seconds where all are for one target."""
    if len({target_of(each) for each in candidates}) < 2:
        return cost
    usd = np.array([each.usd or 0.0 for each in candidates])
    wait = np.array([0.0 if each.there is None else each.there.wait_s for each in candidates])
    return cost + price_s(usd, usd_per_hour) + WAITING_COUNTS * wait


def _with_moves(
    order: list[int], ids: list[int], group: list[int], hands: Mapping[int | None, Directive]
) -> list[int]:
    """The order with what was moved by hand put back where it was moved to."""
    moved = [k for k in order if ids[k] in hands and group[k] in MOVABLE]
    if not moved:
        return order
    present = set(ids)

    def behind(k: int) -> tuple[int, int]:
        hand = hands[ids[k]]
        return len(hand.ahead & present), hand.event_id

    away = set(moved)
    left = [k for k in order if k not in away]
    first = sum(group[k] <= PINNED for k in left)
    banned = sum(group[k] == BANNED for k in left)
    for k in sorted(moved, key=behind):
        left.insert(min(max(behind(k)[0], first), len(left) - banned), k)
    return left


def _apart(order: list[int], group: list[int]) -> tuple[list[int], list[int]]:
    """The order without what is banned, and that."""
    banned = sum(each == BANNED for each in group)
    end = len(order) - banned  # a ban puts it last, and no move behind it
    return order[:end], order[end:]


def _allotted(
    order: list[int],
    candidates: Sequence[Candidate],
    group: list[int],
    hands: Mapping[int | None, Directive],
    directives: Sequence[Directive],
    used: Used,
) -> Allotted:
    """What caps and minimum shares make of an order."""
    given = [each for each in directives if each.kind in ALLOTTING]
    if not given:
        return Allotted(tuple(range(len(order))))
    items = []
    for k in order:
        each = candidates[k]
        is_moved = group[k] in MOVABLE and each.hypothesis_id in hands
        hold = Hold.MOVED if is_moved else Hold.FREE if group[k] == SCORED else Hold.FIXED
        items.append(Item(each.levers, each.cost_s, hold, each.confirms))
    return allot(items, given, used)


def _of_question(directives: Sequence[Directive]) -> Directive | None:
    """The question of the night: the newest, where there are several."""
    found = [each for each in directives if each.kind == DirectiveKind.QUESTION]
    return max(found, key=lambda each: each.event_id, default=None)


def _of_hypotheses(directives: Sequence[Directive], kind: DirectiveKind) -> dict[int | None, Directive]:
    """The newest directive of a kind by the hypothesis that it is about."""
    by_event = sorted(directives, key=lambda each: each.event_id)
    return {each.hypothesis_id: each for each in by_event if each.kind == kind}


def _approval(candidate: Candidate, approvals: Mapping[int | None, Directive]) -> Directive | None:
    """What the user approved of it, or of the one that it makes anew and that was not tested."""
    own = approvals.get(candidate.hypothesis_id)
    return own if own is not None or candidate.untested is None else approvals.get(candidate.untested)


def _factor(directives: Sequence[Directive]) -> float:
    product = 1.0
    for directive in directives:
        default = FOCUS_FACTOR if directive.kind == DirectiveKind.FOCUS else BOOST_FACTOR
        product *= default if directive.factor is None else directive.factor
    return product


def _pins(
    candidates: Sequence[Candidate], directives: Sequence[Directive]
) -> dict[int, tuple[int, Directive | None]]:
    """Pinned hypotheses with their turn: by the event of the pin, then those pinned when they were
    enqueued."""
    pins: dict[int, Directive | None] = {}
    for each in sorted(directives, key=lambda each: each.event_id):
        if each.kind == DirectiveKind.PIN and each.hypothesis_id is not None:
            pins.setdefault(each.hypothesis_id, each)
    for hypothesis in sorted(c.hypothesis_id for c in candidates if c.pinned):
        pins.setdefault(hypothesis, None)
    return {hypothesis: (turn, pin) for turn, (hypothesis, pin) in enumerate(pins.items(), start=1)}


def _ban(directives: Sequence[Directive], levers: tuple[str, ...]) -> Directive | None:
    bans = [each for each in directives if each.kind == DirectiveKind.BAN and each.lever in levers]
    return min(bans, key=lambda each: each.event_id, default=None)


def _group(
    candidate: Candidate,
    pins: dict[int, tuple[int, Directive | None]],
    bans: dict[tuple[str, ...], Directive | None],
) -> int:
    if bans[candidate.levers] is not None:
        return BANNED
    if candidate.settles is not None:
        return QUESTION
    if candidate.hypothesis_id in pins:
        return PINNED
    return DUE if candidate.is_due else SCORED


def _turn(candidate: Candidate, pins: dict[int, tuple[int, Directive | None]]) -> int:
    """What decides within a group before the score: the order of the pins, and that of the questions."""
    if candidate.settles is not None:
        return candidate.hypothesis_id
    if candidate.hypothesis_id in pins:
        return pins[candidate.hypothesis_id][0]
    return (candidate.stands_for or candidate.hypothesis_id) if candidate.is_due else 0

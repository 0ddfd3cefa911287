"""What is run next, and what is not worth running: chances by what was measured so far. Pure.

Support needs both the latency and the quality. Two tests that must both pass are cheapest in the order of
falling (chance to fail) / (cost): with costs a, b and chances to fail f, g, a first costs a + (1 − f)·b, b
first b + (1 − g)·a, so a goes first when f/a > g/b. The chance that latency fails comes from the pairs so
far, the chance that quality fails from what kind of thing was changed, both costs from the evidence itself,
so that the order is a function of plan and evidence.

Chances are those of the mean of all pairs at some later number N of them: given the n pairs now it is
t-distributed about today's mean with variance s²·(1/n − 1/N). The interval then is taken with today's s. They
choose what is measured; what is decided takes the interval as it then is, which holds whatever one looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from agent.judge.costs import evaluation_cost_s, most_pairs, pair_cost_s, pair_costs, warm_load_s
from agent.judge.interval import Interval, PairNoise, chance_below
from agent.judge.pairs import PairEffect
from agent.judge.scale import bound_of
from experiments.measurement.evidence import Evidence
from experiments.measurement.plan import StoppingPlan
from experiments.space.configuration import Change

QUALITY_FAILS: Mapping[str, float] = {
    "pruning": 0.6,
    "quantization": 0.3,
    "drafting": 0.1,
    "serving.dtype": 0.05,
}
"""Chance that quality fails, by the group or knob that changed; judgement, used for the order alone: removed
layers of a small model mostly cost more than 1 %, half precision rarely does; drafting keeps the text unless
it has a fault, and several had (FACTS §2)."""

QUALITY_FAILS_OTHERWISE = 0.01
"""The same for a change that touches neither weights nor number formats (threads, compilation)."""

WEIGHT_GROUPS = frozenset({"pruning", "quantization"})
"""Groups of knobs whose change makes other weights."""

HOPELESS_CHANCE = 0.05
"""Below this chance to be settled by the rest of the plan, the rest is not run (it would end
inconclusive)."""

READY_CHANCE = 0.9
"""From this chance on that the interval lies beyond min_effect once the validation's pairs are in, the
exploratory pairs end: the validation's pairs count in the interval as any other."""

MOST_TOLD_PAIRS = 100
"""A sentence names the pairs that would settle a question up to this number."""

WITHIN_SHARE = 0.5
"""Above this share of a pair's variance from within launches, more blocks pay before another pair does."""

LONGEST_PAIR = 2
"""A later pair has at most this many times `full_blocks` blocks an arm."""


def quality_fails(changes: Iterable[Change]) -> float:
    """The chance that at least one change fails the quality, taken as independent."""
    held = 1.0
    for group in {_group(change.knob) for change in changes}:
        held *= 1 - QUALITY_FAILS.get(group, QUALITY_FAILS_OTHERWISE)
    return 1 - held


def evaluate_first(plan: StoppingPlan, evidence: Evidence, now: Interval) -> bool:
    """Whether quality, rather than the next launch pair, is the cheaper way to find out that it fails."""
    bound = bound_of(plan)
    pairs_left = max(plan.validation_pairs, most_pairs(plan) - now.pairs)
    predicted = now.noise.sd_log * math.sqrt(1 / now.pairs + 1 / (now.pairs + pairs_left))
    latency_fails = 1 - chance_below(bound, now.mean_log, predicted, now.noise.degrees_of_freedom)
    latency_cost = pairs_left * pair_cost_s(evidence)
    return quality_fails(evidence.changes) * latency_cost > latency_fails * evaluation_cost_s(plan, evidence)


def ready_to_validate(plan: StoppingPlan, now: Interval) -> bool:
    """Whether the interval lies beyond min_effect, or most probably will once the validation is in."""
    bound = bound_of(plan)
    if now.high_log < bound:
        return True
    then = now.pairs + plan.validation_pairs
    return _chance_beyond(plan, now, now.noise, then, plan.alpha) >= READY_CHANCE


def chance_to_settle(plan: StoppingPlan, now: Interval) -> float:
    """The chance that after the whole plan support could be called, or the interval excludes min_effect.

    Where the profile is set aside, the larger of the chances with it and without it: few pairs spread by
    chance at times, and later ones may show it.
    """
    last = most_pairs(plan)
    level = _decisive(plan)
    return max(
        _chance_beyond(plan, now, each, last, level) + _chance_short(plan, now, each, last)
        for each in now.noises
    )


def chance_beyond(plan: StoppingPlan, now: Interval) -> float:
    """The chance that after the whole plan support could be called."""
    last, level = most_pairs(plan), _decisive(plan)
    return max(_chance_beyond(plan, now, each, last, level) for each in now.noises)


def pairs_to_settle(plan: StoppingPlan, now: Interval) -> int | None:
    """How many pairs in all would settle it, if their mean and spread stayed as they are; None above
    `MOST_TOLD_PAIRS`."""
    distance = now.mean_log - bound_of(plan)
    alpha = plan.alpha if distance > 0 else _decisive(plan)
    for pairs in range(now.pairs + 1, MOST_TOLD_PAIRS + 1):
        if now.noise.reach(pairs, alpha) < abs(distance):
            return pairs
    return None


def blocks_to_add(plan: StoppingPlan, now: Interval, pairs: tuple[PairEffect, ...]) -> int:
    """Blocks to add to the quick pair, decided by spreads alone: they do not look at the effect."""
    if len(pairs) != 1 or pairs[0].within_se_log ** 2 <= WITHIN_SHARE * now.noise.sd_log**2:
        return 0
    return max(0, plan.full_blocks - pairs[0].blocks)


def blocks_of_next_pair(
    plan: StoppingPlan, evidence: Evidence, now: Interval, pairs: tuple[PairEffect, ...]
) -> int:
    """Blocks an arm of the next pair, decided by spreads and costs alone: more where prompts vary more than
    launches do and are cheaper, up to `LONGEST_PAIR` times `full_blocks`.

    The best number for a given time is √(seconds of loading / seconds a block · variance a block / variance
    between pairs) (Cochran, Sampling Techniques, optimum subsampling with a linear cost).
    """
    within = math.fsum(pair.within_se_log**2 for pair in pairs) / len(pairs)
    if within <= WITHIN_SHARE * now.noise.sd_log**2:
        return plan.full_blocks
    between = max(now.noise.sd_log**2 - within, 0.0)
    a_block = math.fsum(pair.within_se_log**2 * pair.blocks for pair in pairs) / len(pairs)
    costs = [cost for cost in pair_costs(evidence) if cost.blocks]
    block_s = math.fsum(cost.requests_s for cost in costs) / max(1, sum(cost.blocks for cost in costs))
    most = LONGEST_PAIR * plan.full_blocks
    if block_s == 0:
        return plan.full_blocks
    if between == 0:
        return most
    best = math.sqrt(warm_load_s(evidence) / block_s * a_block / between)
    return min(most, max(plan.full_blocks, round(best)))


def changes_weights(changes: Iterable[Change]) -> bool:
    """Whether a change touches the weights, so that quality is looked at before anything is timed."""
    return any(change.knob.partition(".")[0] in WEIGHT_GROUPS for change in changes)


def _decisive(plan: StoppingPlan) -> float:
    """The level of the interval that lies beyond min_effect about when support may be called.

    The e-value of one side is at most twice that of both, so that it needs about twice the level; and the
    interval at alpha must lie beyond as well.
    """
    return min(plan.alpha, 2 * plan.support_level)


def _chance_beyond(plan: StoppingPlan, now: Interval, noise: PairNoise, pairs: int, alpha: float) -> float:
    """The chance that over `pairs` pairs the interval at `alpha` lies beyond min_effect."""
    then = max(pairs, now.pairs)
    reach = noise.reach(then, alpha)
    if not math.isfinite(reach):
        return 0.0
    step = _step(noise, now.pairs, then)
    return chance_below(bound_of(plan) - reach, now.mean_log, step, noise.degrees_of_freedom)


def _chance_short(plan: StoppingPlan, now: Interval, noise: PairNoise, pairs: int) -> float:
    """The chance that over `pairs` pairs the interval says that the gain is smaller than min_effect."""
    then = max(pairs, now.pairs)
    reach = noise.reach(then, plan.alpha)
    if not math.isfinite(reach):
        return 0.0
    step = _step(noise, now.pairs, then)
    return 1 - chance_below(bound_of(plan) + reach, now.mean_log, step, noise.degrees_of_freedom)


def _step(noise: PairNoise, pairs: int, then: int) -> float:
    """The standard deviation of how far the mean moves from `pairs` pairs until there are `then`."""
    return noise.sd_log * math.sqrt(1 / pairs - 1 / then)


def _group(knob: str) -> str:
    return knob if knob in QUALITY_FAILS else knob.partition(".")[0]

"""In which order the remaining tests are run: the one that is most likely to end it, per second, first. Pure.

Support needs both the latency and the quality. Two tests that must both pass are cheapest in the order of
falling (chance to fail) / (cost): with costs a, b and chances to fail f, g, a first costs a + (1 − f)·b, b
first b + (1 − g)·a, so a goes first when f/a > g/b. The chance that latency fails comes from the pairs so
far, the chance that quality fails from what kind of thing was changed, both costs from the evidence itself,
so that the order is a function of plan and evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median

from agent.judge.interval import Interval, chance_below, t_quantile
from agent.judge.pairs import TIMED_STAGES
from experiments.measurement.evidence import Arm, Evidence, Metric
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

TASK_ITEM_TOKENS = 64
"""Tokens scored for one instruction item, prompt and answer, for the estimate of cost alone."""

MS_PER_S = 1e3


def quality_fails(changes: Iterable[Change]) -> float:
    """The chance that at least one change fails the quality, taken as independent."""
    held = 1.0
    for group in {_group(change.knob) for change in changes}:
        held *= 1 - QUALITY_FAILS.get(group, QUALITY_FAILS_OTHERWISE)
    return 1 - held


def pair_cost_s(evidence: Evidence) -> float:
    """Seconds of the dearest timed pair so far: loading and requests of both arms."""
    cost: dict[int, float] = {}
    for arm in Arm:
        for record in evidence.of(arm, *TIMED_STAGES):
            spent = record.load_s + math.fsum(record.values(Metric.E2EL_MS)) / MS_PER_S
            cost[record.index] = cost.get(record.index, 0.0) + spent
    return max(cost.values(), default=0.0)


def evaluation_cost_s(plan: StoppingPlan, evidence: Evidence) -> float:
    """Expected seconds of evaluating the candidate: a launch, and its tokens at the speed of its prefill.

    The control's evaluation is an artifact that other experiments share, and counts nothing. Without a TTFT
    to tell the speed of prefill, the cost of a timed pair stands in.
    """
    launches = evidence.of(Arm.CANDIDATE, *TIMED_STAGES)
    ttft_ms = [value for record in launches for value in record.values(Metric.TTFT_MS)]
    if not ttft_ms:
        return pair_cost_s(evidence)
    work = plan.workload
    tokens = (
        work.evaluation_documents * work.evaluation_tokens_per_document
        + work.evaluation_items * TASK_ITEM_TOKENS
    )
    seconds_a_token = median(ttft_ms) / MS_PER_S / work.prompt_tokens
    return median(record.load_s for record in launches) + tokens * seconds_a_token


def evaluate_first(plan: StoppingPlan, evidence: Evidence, now: Interval) -> bool:
    """Whether quality, rather than the next launch pair, is the cheaper way to find out that it fails."""
    bound = math.log(1 - plan.min_effect)
    exploratory = 0 if now.high_log < bound else plan.full_pairs - now.pairs
    pairs_left = plan.validation_pairs + max(0, exploratory)
    predicted = now.noise.sd_log * math.sqrt(1 / now.pairs + 1 / (now.pairs + pairs_left))
    latency_fails = 1 - chance_below(bound, now.mean_log, predicted, now.degrees_of_freedom)
    latency_cost = pairs_left * pair_cost_s(evidence)
    return quality_fails(evidence.changes) * latency_cost > latency_fails * evaluation_cost_s(plan, evidence)


def chance_to_settle(plan: StoppingPlan, now: Interval, alpha_a_side: float, last: int) -> float:
    """The chance that the interval over `last` pairs excludes min_effect, or lies wholly beyond it.

    The mean of all pairs then, given those now, is t-distributed around today's mean with variance
    s²·(1/n − 1/N); the interval then is taken with today's s. It stops nothing that was decided, and so adds
    no error of support or refutation.
    """
    bound = math.log(1 - plan.min_effect)
    if now.pairs >= last:
        return 1.0 if now.high_log < bound or now.low_log > bound else 0.0
    freedom = now.degrees_of_freedom + last - now.pairs
    reach = t_quantile(alpha_a_side, freedom) * now.noise.sd_log / math.sqrt(last)
    spread = now.noise.sd_log * math.sqrt(1 / now.pairs - 1 / last)
    beyond = chance_below(bound - reach, now.mean_log, spread, now.degrees_of_freedom)
    short = 1 - chance_below(bound + reach, now.mean_log, spread, now.degrees_of_freedom)
    return beyond + short


def changes_weights(changes: Iterable[Change]) -> bool:
    """Whether a change touches the weights, so that quality is looked at before anything is timed."""
    return any(change.knob.partition(".")[0] in WEIGHT_GROUPS for change in changes)


def _group(knob: str) -> str:
    return knob if knob in QUALITY_FAILS else knob.partition(".")[0]

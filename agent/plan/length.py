"""How long a test is planned to be, before its first sample: launch pairs, and blocks in each. Pure.

A small gain needs many pairs and most gains need few, so the plan allows many and the judge stops early. But
in a campaign of minutes one question near `min_effect` could eat the time of all the others: a test has the
pairs that the budget pays for. Its quick pair is quick. And a change that is predicted to save half of the
time is not timed as finely as one that may save a twentieth: its pairs have fewer blocks. That goes by the
prediction alone, which is sealed with the plan, and by no sample of the test. Where the prediction was wrong
the pairs that the plan allows, and longer ones of them, make up for it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, variance

from agent.judge.interval import NOISE_DOF_CAP
from agent.judge.scale import bound_of
from agent.judge.t_mixture import reach
from configs.quantities import format_duration
from experiments.measurement.evidence import TIMED_METRICS, LaunchRecord, Metric, NoiseProfile, Stage
from experiments.measurement.plan import StoppingPlan
from experiments.measurement.timed import requests_s

TEST_SHARE = 1 / 12
"""Most of the campaign's budget that the pairs of one test may take: a short campaign judges some hypotheses
all the same."""

LEAST_PAIRS = 4
"""Exploratory pairs that any budget allows: with fewer, hardly any gain could be told from noise."""

QUICK_PAIR_S = 60.0
"""Most seconds that the quick pair is to take, loads included, so that a first look is soon there."""

LEAST_BLOCKS = 2
"""Blocks an arm that any pair has: with one, a drift of the machine would be an effect."""

ARMS = 2
MS_PER_S = 1e3


@dataclass(frozen=True)
class Length:
    """The most exploratory pairs of a test, the blocks an arm of its quick pair and of the others, and what
    to say of a quick pair that is not quick."""

    full_pairs: int
    quick_blocks: int
    full_blocks: int
    slow: str | None

    def of(self, plan: StoppingPlan) -> StoppingPlan:
        """The plan with this length."""
        return plan.model_copy(
            update={
                "full_pairs": self.full_pairs,
                "quick_blocks": self.quick_blocks,
                "full_blocks": self.full_blocks,
            }
        )


def length_of(
    plan: StoppingPlan,
    budget_s: float,
    baseline: Sequence[LaunchRecord],
    noise: NoiseProfile,
    *,
    in_turn: bool = False,
) -> Length:
    """The length of a test under `plan`, whose own is the most, in a campaign of `budget_s` seconds, by the
    launches of its baseline and the target's noise in the plan's metric; `in_turn`: one launch is up at a
    time."""
    warmup_blocks = plan.workload.requests_before / plan.workload.requests_per_block
    blocks = blocks_for(plan, baseline, noise)
    quick = quick_blocks(min(plan.quick_blocks, blocks), baseline, warmup_blocks, in_turn=in_turn)
    return Length(
        full_pairs=affordable_pairs(plan.full_pairs, budget_s, pair_seconds(baseline, blocks)),
        quick_blocks=quick,
        full_blocks=blocks,
        slow=slow_quick_pair(baseline, quick, warmup_blocks, in_turn=in_turn)
        if plan.metric in TIMED_METRICS
        else None,
    )


def length_told(allowed: StoppingPlan, length: Length) -> tuple[str, ...]:
    """What to say, as clauses, of a test on time that is shorter than the campaign's plan allows."""
    if allowed.metric not in TIMED_METRICS:
        return ()
    told = []
    if length.full_pairs < allowed.full_pairs:
        told.append(
            f"the budget pays for {length.full_pairs} of the plan's {allowed.full_pairs} exploratory launch "
            "pairs"
        )
    if length.full_blocks < allowed.full_blocks:
        told.append(
            f"so large an effect as predicted shows with {length.full_blocks} of the plan's "
            f"{allowed.full_blocks} blocks a launch"
        )
    return (*told, length.slow) if length.slow else tuple(told)


def blocks_for(plan: StoppingPlan, baseline: Iterable[LaunchRecord], noise: NoiseProfile) -> int:
    """Blocks an arm of a launch pair: the fewest with which the quick pair and the validation's would show
    that the predicted effect is beyond `min_effect`, if the arms vary as the baseline does; the plan's own
    where more would not do, or nothing is known.

    They have as many at least as take the time of loading, since fewer would not save half of a pair, and
    `LEAST_BLOCKS`.
    """
    launches = _noise_launches(baseline)
    spread = _block_variance(launches, plan.metric)
    gain = bound_of(plan) - plan.prediction.log_ratio_mean
    if spread is None or noise.launch_sd_log is None or gain <= 0:
        return plan.full_blocks
    pairs, earlier = 1 + plan.validation_pairs, min(noise.degrees_of_freedom, NOISE_DOF_CAP)
    loading = median(each.load_s for each in launches) / (ARMS * median(_block_s(each) for each in launches))
    for blocks in range(max(LEAST_BLOCKS, math.ceil(loading)), plan.full_blocks):
        pair_variance = ARMS * (noise.launch_sd_log**2 + spread / blocks)
        if reach(pairs, pair_variance * (earlier + pairs - 1), earlier, plan.support_level) <= gain:
            return blocks
    return plan.full_blocks


def pair_seconds(baseline: Iterable[LaunchRecord], blocks: int) -> float | None:
    """Expected seconds of a launch pair of `blocks` blocks an arm, as the baseline's noise launches ran.

    None if there are none.
    """
    launches = _noise_launches(baseline)
    if not launches:
        return None
    return ARMS * median(each.load_s + blocks * _block_s(each) for each in launches)


def affordable_pairs(most: int, budget_s: float, pair_s: float | None) -> int:
    """Exploratory pairs of a test: `most`, or what `TEST_SHARE` of the budget pays for, `LEAST_PAIRS` at
    least; never more than `most`."""
    if not pair_s:
        return most
    return min(most, max(LEAST_PAIRS, math.floor(TEST_SHARE * budget_s / pair_s)))


def quick_pair_seconds(
    baseline: Iterable[LaunchRecord], blocks: int, warmup_blocks: float = 0.0, *, in_turn: bool = False
) -> float | None:
    """Expected seconds on the clock of a launch pair; None without noise launches.

    Both load at the same time, or `in_turn` one after the other, and their blocks and warm-ups, each as long
    as `warmup_blocks` blocks, come one after the other.
    """
    launches = _noise_launches(baseline)
    if not launches:
        return None
    loads = ARMS if in_turn else 1
    return median(loads * each.load_s + ARMS * (blocks + warmup_blocks) * _block_s(each) for each in launches)


def quick_blocks(
    most: int, baseline: Sequence[LaunchRecord], warmup_blocks: float = 0.0, *, in_turn: bool = False
) -> int:
    """Blocks an arm of the quick pair: `most`, or as many as keep it within `QUICK_PAIR_S`, `LEAST_BLOCKS` at
    least."""
    for blocks in range(most, LEAST_BLOCKS, -1):
        seconds = quick_pair_seconds(baseline, blocks, warmup_blocks, in_turn=in_turn)
        if seconds is None or seconds <= QUICK_PAIR_S:
            return blocks
    return min(most, LEAST_BLOCKS)


def slow_quick_pair(
    baseline: Sequence[LaunchRecord], blocks: int, warmup_blocks: float = 0.0, *, in_turn: bool = False
) -> str | None:
    """What to say of a quick pair that is not quick, as a clause; None of one that is, or is not known."""
    seconds = quick_pair_seconds(baseline, blocks, warmup_blocks, in_turn=in_turn)
    if seconds is None or seconds <= QUICK_PAIR_S:
        return None
    loading = quick_pair_seconds(baseline, 0, in_turn=in_turn)
    return (
        f"its quick pair of {blocks} blocks an arm is expected to take {format_duration(seconds)}, "
        f"{format_duration(loading)} of it to load, and not the {format_duration(QUICK_PAIR_S)} that a first "
        "look may take"
    )


def _noise_launches(baseline: Iterable[LaunchRecord]) -> list[LaunchRecord]:
    return [each for each in baseline if each.stage is Stage.NOISE and each.samples]


def _block_variance(launches: Iterable[LaunchRecord], metric: Metric) -> float | None:
    """Variance, within a launch, of the log of a block's median; None where no launch has two blocks."""
    found = []
    for launch in launches:
        blocks: defaultdict[int, list[float]] = defaultdict(list)
        for sample in launch.samples:
            if sample.metric == metric and sample.value > 0:
                blocks[sample.block].append(sample.value)
        if len(blocks) > 1:
            found.append(variance([math.log(median(values)) for values in blocks.values()]))
    return fmean(found) if found else None


def _block_s(launch: LaunchRecord) -> float:
    blocks = {sample.block for sample in launch.samples}
    return requests_s(launch) / len(blocks)

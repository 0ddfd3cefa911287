"""From raw samples to one number a launch pair: the effect that the pair shows. Pure.

The launch is the unit of replication, so whatever was sampled within a pair of launches becomes one value,
`PairEffect.effect_log`. Within the pair the value is made so:

1. A prompt's value within a block is the median of its samples (one for TPOT; one a token for ITL).
2. A *block ratio* is the median, over the prompts of a block, of log(candidate / control), block k of one arm
   against block k of the other, which stand side by side. The median is robust: one request that the machine
   interrupted does not move a block of three or more; prompts are compared with themselves, so their lengths
   cancel. A metric that is better as it rises (`HIGHER_IS_BETTER`) changes its sign, so that a negative
   effect is faster for every metric.
3. The pair's effect is the Hodges–Lehmann estimate of the block ratios: the median of the averages of all
   pairs of them, each with itself too. Couples of blocks are led by A and B in turn, so a linear drift of
   the machine adds the same amount with alternating sign, and cancels by that symmetry over complete
   rounds, as it does in a mean; unlike a mean, it stays where it is when the machine interrupts one block of
   four (Hodges and Lehmann, Annals of Mathematical Statistics 34, 1963; 95 % as efficient as a mean for
   normal noise).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import TypeAlias

from agent.judge.once import once
from experiments.measurement.evidence import (
    HIGHER_IS_BETTER,
    Arm,
    Evidence,
    LaunchRecord,
    Metric,
    Sample,
    Stage,
)
from experiments.measurement.location import hodges_lehmann

TIMED_STAGES = (Stage.QUICK, Stage.FULL, Stage.VALIDATION)
"""The stages whose launches are timed in pairs."""

MAD_TO_SD = 1.4826
"""A normal standard deviation over its median absolute deviation: 1 / Φ⁻¹(3/4)."""


Block: TypeAlias = Mapping[str, float]
"""A run of requests on one arm: each prompt with the log of its median value."""


@dataclass(frozen=True)
class PairEffect:
    """What one pair of launches shows.

    `effect_log` is the centre of `blocks` block ratios, natural log of candidate over control, negative is
    faster. `within_se_log` is its standard error from the spread of the block ratios alone (0 for one block),
    by their median absolute deviation: a floor for the error of the pair, never its measure. `samples` counts
    the raw values of both arms.
    """

    index: int
    validation: bool
    effect_log: float
    within_se_log: float
    blocks: int
    samples: int


def timed_launches(evidence: Evidence, arm: Arm) -> dict[int, tuple[LaunchRecord, ...]]:
    """The timed records of an arm by launch index; a launch measured further may have several records."""
    found: dict[int, list[LaunchRecord]] = {}
    for record in evidence.of(arm, *TIMED_STAGES):
        found.setdefault(record.index, []).append(record)
    return {index: tuple(records) for index, records in found.items()}


def blocks_of(records: Iterable[LaunchRecord], metric: Metric) -> dict[int, Block]:
    """The blocks of one launch by their number; values must be positive and finite."""
    found = tuple(records)
    if len(found) == 1:
        return _blocks_of_one(found[0], metric)
    return _blocks(chain.from_iterable(record.of(metric) for record in found), metric)


@once
def _blocks_of_one(record: LaunchRecord, metric: Metric) -> dict[int, Block]:
    return _blocks(record.of(metric), metric)


def _blocks(samples: Iterable[Sample], metric: Metric) -> dict[int, Block]:
    values: dict[int, dict[str, list[float]]] = {}
    for sample in samples:
        values.setdefault(sample.block, {}).setdefault(sample.item, []).append(sample.value)
    sign = -1.0 if metric in HIGHER_IS_BETTER else 1.0
    return {
        number: {item: sign * math.log(_median(found)) for item, found in block.items()}
        for number, block in sorted(values.items())
    }


def paired_blocks(
    control: Iterable[LaunchRecord], candidate: Iterable[LaunchRecord], metric: Metric
) -> list[tuple[int, Block, Block]]:
    """Blocks of equal number of a launch pair; one without its partner (a round cut off) is left out."""
    before, after = blocks_of(control, metric), blocks_of(candidate, metric)
    return [(number, before[number], after[number]) for number in before if number in after]


def pair_effects(evidence: Evidence, metric: Metric) -> tuple[PairEffect, ...]:
    """The effect of every pair of launches of equal index, in order of index.

    A launch without its partner gives nothing.
    """
    control, candidate = timed_launches(evidence, Arm.CONTROL), timed_launches(evidence, Arm.CANDIDATE)
    effects = []
    for index in sorted(control.keys() & candidate.keys()):
        effect = _pair_effect(index, control[index], candidate[index], metric)
        if effect is not None:
            effects.append(effect)
    return tuple(effects)


def _pair_effect(
    index: int, control: Sequence[LaunchRecord], candidate: Sequence[LaunchRecord], metric: Metric
) -> PairEffect | None:
    ratios = [
        ratio
        for _, before, after in paired_blocks(control, candidate, metric)
        if (ratio := _block_ratio(before, after)) is not None
    ]
    if not ratios:
        return None
    both = (*control, *candidate)
    return effect_of_ratios(
        index,
        ratios,
        samples=sum(len(record.of(metric)) for record in both),
        validation=any(record.stage == Stage.VALIDATION for record in both),
    )


def effect_of_ratios(index: int, ratios: Sequence[float], samples: int, *, validation: bool) -> PairEffect:
    """The effect of a pair from its block ratios, at least one, natural log."""
    centre = hodges_lehmann(ratios)
    return PairEffect(
        index=index,
        validation=validation,
        effect_log=centre,
        within_se_log=MAD_TO_SD * _median([abs(r - centre) for r in ratios]) / math.sqrt(len(ratios)),
        blocks=len(ratios),
        samples=samples,
    )


def _block_ratio(control: Block, candidate: Block) -> float | None:
    shared = [after - control[item] for item, after in candidate.items() if item in control]
    return _median(shared) if shared else None


def _median(values: Sequence[float]) -> float:
    return values[0] if len(values) == 1 else median(values)

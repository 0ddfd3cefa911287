"""From raw samples to one number a launch pair: the effect that the pair shows. Pure.

The launch is the unit of replication, so whatever was sampled within a pair of launches becomes one value,
`PairEffect.effect_log`. Within the pair the value is made so:

1. A prompt's value within a block is the median of its samples (one for TPOT; one a token for ITL).
2. A *block ratio* is the median, over the prompts of a block, of log(candidate / control), block k of one arm
   against block k of the other. The median is robust: one request that the machine interrupted does not move
   a block of three or more; prompts are compared with themselves, so their lengths cancel.
3. The pair's effect is the Hodges–Lehmann estimate of the block ratios: the median of the averages of all
   pairs of them, each with itself too. Blocks run A B B A, so a linear drift of the machine adds the same
   amount with alternating sign, and by that symmetry cancels exactly over complete rounds, as it does in a
   mean; unlike a mean, it stays where it is when the machine interrupts one block of four
   (Hodges and Lehmann, Annals of Mathematical Statistics 34, 1963; 95 % as efficient as a mean for normal
   noise).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from statistics import median

from experiments.measurement.evidence import Arm, Evidence, LaunchRecord, Metric, Stage

TIMED_STAGES = (Stage.QUICK, Stage.FULL, Stage.VALIDATION)
"""The stages whose launches are timed in pairs."""

HIGHER_IS_BETTER = frozenset({Metric.TOKENS_PER_S})
"""Metrics whose log ratio changes sign, so that a negative effect is faster for every metric."""

JUDGED_METRICS = frozenset(
    {Metric.TTFT_MS, Metric.TPOT_MS, Metric.ITL_MS, Metric.E2EL_MS, Metric.TOKENS_PER_S}
)
"""What an effect may be judged on; the others are measures of quality."""

MAD_TO_SD = 1.4826
"""A normal standard deviation over its median absolute deviation: 1 / Φ⁻¹(3/4)."""


@dataclass(frozen=True)
class Block:
    """A run of requests on one arm: `logs` maps each prompt to the log of its median value."""

    position: int
    logs: tuple[tuple[str, float], ...]


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


def blocks_of(records: Iterable[LaunchRecord], metric: Metric) -> list[Block]:
    """The blocks of one launch in the order they ran; values must be positive and finite."""
    values: dict[tuple[int, int, int], dict[str, list[float]]] = {}
    for place, record in enumerate(records):
        for sample in record.samples:
            if sample.metric == metric:
                block = values.setdefault((place, sample.position, sample.block), {})
                block.setdefault(sample.item, []).append(sample.value)
    sign = -1.0 if metric in HIGHER_IS_BETTER else 1.0
    return [
        Block(key[1], tuple((item, sign * math.log(_median(found))) for item, found in sorted(block.items())))
        for key, block in sorted(values.items())
    ]


def pair_effects(evidence: Evidence, metric: Metric) -> tuple[PairEffect, ...]:
    """The effect of every pair of launches of equal index, in order of index.

    A launch without its partner gives nothing; a block without its partner (a round that was cut off) is
    left out.
    """
    control, candidate = timed_launches(evidence, Arm.CONTROL), timed_launches(evidence, Arm.CANDIDATE)
    effects = []
    for index in sorted(control.keys() & candidate.keys()):
        effect = _pair_effect(index, control[index], candidate[index], metric)
        if effect is not None:
            effects.append(effect)
    return tuple(effects)


def hodges_lehmann(values: Sequence[float]) -> float:
    """The median of the averages of all pairs of values, each value paired with itself too."""
    return _median([(a + b) / 2 for a, b in combinations_with_replacement(values, 2)])


def _pair_effect(
    index: int, control: Sequence[LaunchRecord], candidate: Sequence[LaunchRecord], metric: Metric
) -> PairEffect | None:
    # zip ends with the shorter arm: a block whose partner was never run says nothing
    ratios = [
        ratio
        for a, b in zip(blocks_of(control, metric), blocks_of(candidate, metric), strict=False)
        if (ratio := _block_ratio(a, b)) is not None
    ]
    if not ratios:
        return None
    centre = hodges_lehmann(ratios)
    return PairEffect(
        index=index,
        validation=any(record.stage == Stage.VALIDATION for record in (*control, *candidate)),
        effect_log=centre,
        within_se_log=MAD_TO_SD * _median([abs(r - centre) for r in ratios]) / math.sqrt(len(ratios)),
        blocks=len(ratios),
        samples=sum(
            sample.metric == metric for record in (*control, *candidate) for sample in record.samples
        ),
    )


def _block_ratio(control: Block, candidate: Block) -> float | None:
    before = dict(control.logs)
    shared = [after - before[item] for item, after in candidate.logs if item in before]
    return _median(shared) if shared else None


def _median(values: Sequence[float]) -> float:
    return values[0] if len(values) == 1 else median(values)

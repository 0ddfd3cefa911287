"""Effects that are scored, not timed: bits of documents, instruction items, bytes of weights. Pure.

Each is in its metric's scale, negative where the candidate is better:

- **Bits**: the log of R = Σ candidate bits / Σ control bits over the same documents. Its standard error is
  that of the ratio estimate over R (delta method); Student's t on n − 1.
- **Items**: minus the gain in the share of items solved, (lost − gained) / n, with Tango's score bounds at
  both sides (`agent.judge.noninferiority`).
- **Bytes**: the log of a ratio of two counts. It is exact, and its interval is itself.

Documents and items are the units, drawn from held-out text: the interval speaks of these two checkpoints on
text of this kind. It does not speak of another checkpoint that the same recipe would give with another seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from agent.judge.interval import t_quantile
from agent.judge.noninferiority import MIN_DOCUMENTS, lost_and_gained, ratio_estimate, tango_upper
from agent.judge.quality import by_item
from experiments.measurement.evidence import Arm, Evidence, Metric, Stage


@dataclass(frozen=True)
class ScoredEffect:
    """An effect in its metric's scale with its two-sided interval and standard error.

    `count` is what it rests on: paired documents, paired items, or launches of each arm.
    """

    mean: float
    low: float
    high: float
    error: float
    count: int


def scored_effect(
    metric: Metric, evidence: Evidence, stages: tuple[Stage, ...], alpha_a_side: float
) -> ScoredEffect | None:
    """The effect on `metric` of what `stages` scored; None where too little was paired to tell it.

    The interval misses at each side with `alpha_a_side`. Raises `ValueError` for a metric that is not scored.
    """
    control, candidate = (by_item(evidence, arm, metric, stages) for arm in (Arm.CONTROL, Arm.CANDIDATE))
    match metric:
        case Metric.NLL_BITS:
            return _bits(control, candidate, alpha_a_side)
        case Metric.TASK_CORRECT:
            return _items(control, candidate, alpha_a_side)
        case Metric.STEP_WEIGHT_BYTES:
            return _bytes(evidence, stages)
    raise ValueError(f"{metric.value} is not scored")


def _bits(
    control: Mapping[str, float], candidate: Mapping[str, float], alpha_a_side: float
) -> ScoredEffect | None:
    names = sorted(control.keys() & candidate.keys())
    count = len(names)
    if count < MIN_DOCUMENTS:
        return None
    ratio, error = ratio_estimate([control[name] for name in names], [candidate[name] for name in names])
    mean, error_log = math.log(ratio), error / ratio
    reach = t_quantile(alpha_a_side, count - 1) * error_log
    return ScoredEffect(mean, mean - reach, mean + reach, error_log, count)


def _items(
    control: Mapping[str, float], candidate: Mapping[str, float], alpha_a_side: float
) -> ScoredEffect | None:
    lost, gained, count = lost_and_gained(control, candidate)
    if not count:
        return None
    mean = (lost - gained) / count
    return ScoredEffect(
        mean,
        -tango_upper(gained, lost, count, alpha_a_side),
        tango_upper(lost, gained, count, alpha_a_side),
        math.sqrt(max(0.0, lost + gained - count * mean**2)) / count,
        count,
    )


def _bytes(evidence: Evidence, stages: tuple[Stage, ...]) -> ScoredEffect | None:
    """The ratio of bytes; where launches of an arm tell several counts, from the least to the most of it."""
    told = {
        arm: [
            value for record in evidence.of(arm, *stages) for value in record.values(Metric.STEP_WEIGHT_BYTES)
        ]
        for arm in Arm
    }
    control, candidate = told[Arm.CONTROL], told[Arm.CANDIDATE]
    if not control or not candidate:
        return None
    low = math.log(min(candidate) / max(control))
    high = math.log(max(candidate) / min(control))
    return ScoredEffect((low + high) / 2, low, high, 0.0, min(len(control), len(candidate)))

"""Quality as non-inferiority: is the candidate, with confidence, not worse than the margin allows? Pure.

Two tests, each one-sided at the plan's alpha, each paired; quality is *held* only if every test that the plan
asks for passes, so the chance to pass a candidate that is worse than a margin is at most alpha (an
intersection-union test needs no correction). Too little data never passes: the bound is then beyond the
margin, and the state is *undecided*.

- **Bits per byte**, paired by document. The relative difference of total bits per byte is a ratio estimate,
  R = Σ candidate bits / Σ control bits over the same documents (their bytes are the same); its standard error
  comes from the residuals e_j = y_j − R·x_j (Cochran, *Sampling Techniques*, §6.3), with
  Student's t on n − 1.
- **Tasks**, paired by item. b items were right before and are wrong now, c the other way round; the net loss
  is (b − c) / n. Its bound is Tango's score bound for paired proportions (Statistics in Medicine 17, 1998)
  with a small correction for continuity, which keeps its level where the usual one fails, at few or no
  discordant items.

KL and top-1 agreement are reported, and gate nothing here: near the baseline they don't rank candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from scipy.special import ndtri

from agent.judge.interval import t_quantile
from experiments.measurement.evidence import Arm, Evidence, Json, Metric, Stage
from experiments.measurement.plan import StoppingPlan

MIN_DOCUMENTS = 8
"""Fewest paired documents of which a ratio estimate is trusted: its linear error term is of order 1/n."""

POINTS = 100.0
"""Percentage points in one."""

CONTINUITY_ITEMS = 0.25
"""Added to the lost items: with it the exact size of the task test, by enumeration over all chances to lose
and gain at 150, 300 and 600 items, is at most alpha = 5 %; without it up to 6 %."""

BISECTIONS = 40
"""Halvings of an interval of length ≤ 2: a bound is exact to 2e-12."""


class Quality(StrEnum):
    """What the paired quality data say."""

    HELD = "held"
    WORSE = "worse"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Bound:
    """A difference (positive is worse) with its one-sided lower and upper bounds, and the margin.

    In the unit of the margin: relative for bits per byte, percentage points for tasks. `count` documents or
    items were paired.
    """

    difference: float
    low: float
    high: float
    margin: float
    count: int

    @property
    def state(self) -> Quality:
        """Held if the upper bound keeps the margin, worse if even the lower bound is beyond it."""
        if self.high <= self.margin:
            return Quality.HELD
        return Quality.WORSE if self.low > self.margin else Quality.UNDECIDED


@dataclass(frozen=True)
class QualityReport:
    """Both tests and what is reported beside them; None stands for what was not measured or asked for."""

    bits: Bound | None
    tasks: Bound | None
    tasks_asked: bool
    reference_accuracy: float | None
    kl_nats_mean: float | None
    top1_agreement_mean: float | None

    @property
    def state(self) -> Quality:
        """The tests together: one that is worse decides, and all must hold."""
        if self.bits is None and self.tasks is None:
            return Quality.NOT_MEASURED
        found = {test.state for test in (self.bits, self.tasks) if test is not None}
        if Quality.WORSE in found:
            return Quality.WORSE
        missing = self.bits is None or (self.tasks_asked and self.tasks is None)
        return Quality.UNDECIDED if missing or Quality.UNDECIDED in found else Quality.HELD

    def sentence(self) -> str:
        """The tests in words, with numbers; without a full stop."""
        parts = []
        if self.bits is not None:
            parts.append(
                f"bits per byte {100 * self.bits.difference:+.2f} % (at most {100 * self.bits.high:+.2f} %, "
                f"allowed {100 * self.bits.margin:+.1f} %; {self.bits.count} documents)"
            )
        elif self.tasks is not None:
            parts.append(f"fewer than {MIN_DOCUMENTS} paired documents")
        if self.tasks is not None:
            parts.append(
                f"tasks {-self.tasks.difference:+.1f} points (at worst {-self.tasks.high:+.1f}, allowed "
                f"{-self.tasks.margin:+.1f}; {self.tasks.count} items)"
            )
            if self.reference_accuracy is not None and POINTS * self.reference_accuracy < self.tasks.margin:
                parts.append(
                    f"the reference solves {POINTS * self.reference_accuracy:.1f} % of them, too few to lose"
                )
        elif self.tasks_asked:
            parts.append("no paired task items")
        return ", ".join(parts) if parts else "quality was not measured"

    def as_json(self) -> dict[str, Json]:
        """What a verdict stores: differences with their bounds, by name."""
        found: dict[str, Json] = {"state": self.state.value}
        if self.bits is not None:
            found["bits_per_byte_relative"] = _bound_json(self.bits)
        if self.tasks is not None:
            found["task_points_lost"] = _bound_json(self.tasks)
        found["reference_accuracy"] = self.reference_accuracy
        found["kl_nats_mean"] = self.kl_nats_mean
        found["top1_agreement_mean"] = self.top1_agreement_mean
        return found


def quality_report(plan: StoppingPlan, evidence: Evidence) -> QualityReport:
    """Both tests on everything that the evaluate stage measured so far."""
    bits = {arm: _by_item(evidence, arm, Metric.NLL_BITS) for arm in Arm}
    tasks = {arm: _by_item(evidence, arm, Metric.TASK_CORRECT) for arm in Arm}
    documents = sorted(bits[Arm.CONTROL].keys() & bits[Arm.CANDIDATE].keys())
    items = sorted(tasks[Arm.CONTROL].keys() & tasks[Arm.CANDIDATE].keys())
    return QualityReport(
        bits=bits_bound(
            [bits[Arm.CONTROL][name] for name in documents],
            [bits[Arm.CANDIDATE][name] for name in documents],
            margin=plan.margins.bits_per_byte,
            alpha=plan.alpha,
        ),
        tasks=task_bound(
            lost=sum(tasks[Arm.CONTROL][name] > tasks[Arm.CANDIDATE][name] for name in items),
            gained=sum(tasks[Arm.CONTROL][name] < tasks[Arm.CANDIDATE][name] for name in items),
            items=len(items),
            margin_points=plan.margins.task_points,
            alpha=plan.alpha,
        ),
        reference_accuracy=_mean(tasks[Arm.CONTROL]),
        tasks_asked=plan.workload.evaluation_items > 0,
        kl_nats_mean=_mean(_by_item(evidence, Arm.CANDIDATE, Metric.KL_NATS)),
        top1_agreement_mean=_mean(_by_item(evidence, Arm.CANDIDATE, Metric.TOP1_AGREEMENT)),
    )


def bits_bound(
    control: Sequence[float], candidate: Sequence[float], *, margin: float, alpha: float
) -> Bound | None:
    """The relative difference of total bits with one-sided bounds at `1 − alpha` each.

    `control` and `candidate` are bits of the same documents in the same order. None for fewer than
    `MIN_DOCUMENTS`.
    """
    count = len(control)
    if count < MIN_DOCUMENTS:
        return None
    total = math.fsum(control)
    ratio = math.fsum(candidate) / total
    residuals = [after - ratio * before for before, after in zip(control, candidate, strict=True)]
    squares = math.fsum(residual**2 for residual in residuals)
    error = math.sqrt(count / (count - 1) * squares) / total
    reach = t_quantile(alpha, count - 1) * error
    return Bound(ratio - 1, ratio - 1 - reach, ratio - 1 + reach, margin, count)


def task_bound(*, lost: int, gained: int, items: int, margin_points: float, alpha: float) -> Bound | None:
    """The net loss in percentage points with one-sided bounds at `1 − alpha` each; None without items."""
    if items == 0:
        return None
    return Bound(
        difference=POINTS * (lost - gained) / items,
        low=-POINTS * _tango_upper(gained, lost, items, alpha),
        high=POINTS * _tango_upper(lost, gained, items, alpha),
        margin=margin_points,
        count=items,
    )


def _tango_upper(lost: int, gained: int, items: int, alpha: float) -> float:
    """The largest net loss, as a share of the items, that the score test at `alpha` does not exclude."""
    z = float(-ndtri(alpha))
    low, high = (lost - gained) / items, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if _tango_score(lost + CONTINUITY_ITEMS, gained, items, middle) < z:
            low = middle
        else:
            high = middle
    return high


def _tango_score(lost: float, gained: int, items: int, loss: float) -> float:
    """How many standard errors the observed net loss lies below `loss`.

    Under a net loss δ the chances are q + δ (lost) and q (gained); q is the constrained maximum-likelihood
    estimate, the larger root of 2n·q² + ((2n − b + c)·δ − b − c)·q − c·δ·(1 − δ) = 0.
    """
    linear = (2 * items - lost + gained) * loss - lost - gained
    constant = -gained * loss * (1 - loss)
    q = (math.sqrt(max(0.0, linear * linear - 8 * items * constant)) - linear) / (4 * items)
    variance = items * (2 * q + loss * (1 - loss))
    distance = items * loss - (lost - gained)
    if variance <= 0:
        return math.inf if distance > 0 else 0.0
    return distance / math.sqrt(variance)


def _by_item(evidence: Evidence, arm: Arm, metric: Metric) -> Mapping[str, float]:
    return {
        sample.item: sample.value
        for record in evidence.of(arm, Stage.EVALUATE)
        for sample in record.samples
        if sample.metric == metric
    }


def _mean(values: Mapping[str, float]) -> float | None:
    return fmean(values.values()) if values else None


def _bound_json(bound: Bound) -> dict[str, Json]:
    return {
        "difference": bound.difference,
        "low": bound.low,
        "high": bound.high,
        "margin": bound.margin,
        "count": bound.count,
    }

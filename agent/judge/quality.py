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

A claim on one of these metrics is guarded by the other alone (`agent.judge.scored_claim`); both are told.

**Drafting**, where it changed, must keep the text (`agent.judge.drafting`): it is part of the state.

KL and top-1 agreement are reported, and gate nothing here: near the baseline they don't rank candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from scipy.special import ndtri

from agent.judge.drafting import DraftingReport, arm_is_due, drafting_report
from agent.judge.interval import t_quantile
from experiments.job.evaluation import DECODE_ITEM_PREFIX
from experiments.measurement.evidence import Arm, Evidence, Json, Metric, Stage
from experiments.measurement.plan import StoppingPlan
from knowledge.figures import signed

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
    """The tests and what is reported beside them; None stands for what was not measured.

    `scored`: the candidate was screened or evaluated, so that what was asked for and is None could not be
    told. `bits_asked`, `tasks_asked` and the two `…drafting_asked` say which of them decide; `drafting` is
    that of the candidate.
    """

    scored: bool
    bits: Bound | None
    tasks: Bound | None
    bits_asked: bool
    tasks_asked: bool
    reference_accuracy: float | None
    kl_nats_mean: float | None
    top1_agreement_mean: float | None
    drafting: DraftingReport | None = None
    drafting_asked: bool = False
    control_drafting: DraftingReport | None = None
    control_drafting_asked: bool = False

    @property
    def state(self) -> Quality:
        """The tests together: one that is worse decides, and all that were asked for must hold."""
        if not self.scored:
            return Quality.NOT_MEASURED
        found = set()
        if self.bits_asked:
            found.add(self.bits.state if self.bits is not None else Quality.UNDECIDED)
        if self.tasks_asked:
            found.add(self.tasks.state if self.tasks is not None else Quality.UNDECIDED)
        if self.drafting_asked:
            found.add(_drafting_state(self.drafting))
        if self.control_drafting_asked:
            # one that changes the text is no control at all, which a gate says before
            found.add(_drafting_state(self.control_drafting))
        for state in (Quality.WORSE, Quality.UNDECIDED):
            if state in found:
                return state
        return Quality.HELD

    @property
    def drafting_open(self) -> bool:
        """Whether the check of drafting, which the first evaluation alone makes, leaves the text open."""
        asked = ((self.drafting, self.drafting_asked), (self.control_drafting, self.control_drafting_asked))
        return any(due and _drafting_state(report) == Quality.UNDECIDED for report, due in asked)

    def sentence(self) -> str:
        """The tests that decide in words, with numbers; without a full stop."""
        if not self.scored:
            return "quality was not measured"
        parts = [*self._bits_words(), *self._tasks_words()]
        if self.drafting_asked:
            parts.append(_drafting_words(self.drafting))
        if self.control_drafting_asked:
            parts.append(f"in the control {_drafting_words(self.control_drafting)}")
        return ", ".join(parts) if parts else "nothing else was asked for"

    def _bits_words(self) -> list[str]:
        if not self.bits_asked:
            return []
        if self.bits is None:
            return [f"fewer than {MIN_DOCUMENTS} paired documents"]
        return [
            f"bits per byte {signed(100 * self.bits.difference, 2)} % (at most "
            f"{signed(100 * self.bits.high, 2)} %, allowed {signed(100 * self.bits.margin)} %; "
            f"{self.bits.count} documents)"
        ]

    def _tasks_words(self) -> list[str]:
        if not self.tasks_asked:
            return []
        if self.tasks is None:
            return ["no paired task items"]
        parts = [
            f"tasks {signed(-self.tasks.difference)} points (at worst {signed(-self.tasks.high)}, allowed "
            f"{signed(-self.tasks.margin)}; {self.tasks.count} items)"
        ]
        if self.reference_accuracy is not None and POINTS * self.reference_accuracy < self.tasks.margin:
            parts.append(
                f"the reference solves {POINTS * self.reference_accuracy:.1f} % of them, too few to lose"
            )
        return parts

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
        if self.drafting is not None:
            found["drafting"] = self.drafting.as_json()
        if self.control_drafting is not None:
            found["control_drafting"] = self.control_drafting.as_json()
        return found


def quality_report(plan: StoppingPlan, evidence: Evidence) -> QualityReport:
    """The tests on what was evaluated, validation included, or before that the screen."""
    evaluated = bool(evidence.of(Arm.CANDIDATE, Stage.EVALUATE))
    stages = (Stage.EVALUATE, Stage.VALIDATION) if evaluated else (Stage.SCREEN,)
    bits = {arm: by_item(evidence, arm, Metric.NLL_BITS, stages) for arm in Arm}
    tasks = {arm: by_item(evidence, arm, Metric.TASK_CORRECT, stages) for arm in Arm}
    documents = sorted(bits[Arm.CONTROL].keys() & bits[Arm.CANDIDATE].keys())
    lost, gained, items = lost_and_gained(tasks[Arm.CONTROL], tasks[Arm.CANDIDATE])
    return QualityReport(
        scored=evaluated or bool(evidence.of(Arm.CANDIDATE, Stage.SCREEN)),
        bits=bits_bound(
            [bits[Arm.CONTROL][name] for name in documents],
            [bits[Arm.CANDIDATE][name] for name in documents],
            margin=plan.margins.bits_per_byte,
            alpha=plan.alpha,
        ),
        tasks=task_bound(
            lost=lost,
            gained=gained,
            items=items,
            margin_points=plan.margins.task_points,
            alpha=plan.alpha,
        ),
        bits_asked=plan.metric is not Metric.NLL_BITS,
        tasks_asked=plan.metric is not Metric.TASK_CORRECT and plan.workload.evaluation_items > 0,
        reference_accuracy=_mean(tasks[Arm.CONTROL]),
        kl_nats_mean=_mean(by_item(evidence, Arm.CANDIDATE, Metric.KL_NATS, stages)),
        top1_agreement_mean=_mean(by_item(evidence, Arm.CANDIDATE, Metric.TOP1_AGREEMENT, stages)),
        drafting=drafting_report(evidence),
        drafting_asked=evaluated and arm_is_due(evidence, Arm.CANDIDATE),
        control_drafting=drafting_report(evidence, Arm.CONTROL),
        control_drafting_asked=evaluated and arm_is_due(evidence, Arm.CONTROL),
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
    ratio, error = ratio_estimate(control, candidate)
    reach = t_quantile(alpha, count - 1) * error
    return Bound(ratio - 1, ratio - 1 - reach, ratio - 1 + reach, margin, count)


def ratio_estimate(control: Sequence[float], candidate: Sequence[float]) -> tuple[float, float]:
    """The ratio of totals, candidate over control, and its standard error; of two pairs at least."""
    count, total = len(control), math.fsum(control)
    ratio = math.fsum(candidate) / total
    residuals = [after - ratio * before for before, after in zip(control, candidate, strict=True)]
    squares = math.fsum(residual**2 for residual in residuals)
    return ratio, math.sqrt(count / (count - 1) * squares) / total


def lost_and_gained(control: Mapping[str, float], candidate: Mapping[str, float]) -> tuple[int, int, int]:
    """How many items both arms answered that the candidate lost, that it gained, and how many in all."""
    items = control.keys() & candidate.keys()
    lost = sum(control[name] > candidate[name] for name in items)
    gained = sum(control[name] < candidate[name] for name in items)
    return lost, gained, len(items)


def task_bound(*, lost: int, gained: int, items: int, margin_points: float, alpha: float) -> Bound | None:
    """The net loss in percentage points with one-sided bounds at `1 − alpha` each; None without items."""
    if items == 0:
        return None
    return Bound(
        difference=POINTS * (lost - gained) / items,
        low=-POINTS * tango_upper(gained, lost, items, alpha),
        high=POINTS * tango_upper(lost, gained, items, alpha),
        margin=margin_points,
        count=items,
    )


def tango_upper(lost: int, gained: int, items: int, alpha: float) -> float:
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


def by_item(evidence: Evidence, arm: Arm, metric: Metric, stages: tuple[Stage, ...]) -> Mapping[str, float]:
    """The values of a metric that an arm's launches of these stages gave, by document or item.

    A document that an engine scored once more through its timed path is left out: it is no further one.
    """
    return {
        sample.item: sample.value
        for record in evidence.of(arm, *stages)
        for sample in record.samples
        if sample.metric == metric and not sample.item.startswith(DECODE_ITEM_PREFIX)
    }


def _drafting_words(report: DraftingReport | None) -> str:
    return report.sentence() if report is not None and report.prompts else "drafting was not checked"


def _drafting_state(report: DraftingReport | None) -> Quality:
    if report is None or not report.enough:
        return Quality.UNDECIDED
    return Quality.WORSE if report.changes_text else Quality.HELD


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

"""What the evidence says by now, reduced to the few values that the judge's rules read. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from agent.judge.interval import (
    Interval,
    PairNoise,
    e_value_below,
    interval,
    one_look_high,
    pair_noises,
)
from agent.judge.pairs import TIMED_STAGES, PairEffect, pair_effects
from agent.judge.quality import QualityReport, quality_report
from agent.judge.scale import bound_of
from experiments.measurement.evidence import Arm, Evidence, Stage
from experiments.measurement.plan import StoppingPlan


@dataclass(frozen=True)
class Validation:
    """What the validation's pairs alone show: their mean effect, and the upper end of its interval, one-sided
    at alpha at one look, with the spread of a pair over all of them."""

    mean_log: float
    high_log: float


@dataclass(frozen=True)
class Reading:
    """The pairs, the interval over all of them, the validation's own, and the quality.

    `overall` is the confidence sequence at alpha, `e_value` that of "the gain is smaller than min_effect",
    `needed` what it must reach before support is called. `overall`, `validation` and `e_value` are None while
    no degree of freedom tells the noise. `bound_log` is log(1 − min_effect).
    `screened`: the candidate's weights were scored; `evaluated`: in the configuration that is judged. Both
    hold of made-up weights, for there is nothing to wait for.
    `pair_is_up`: nothing was scored since the last blocks, so that its launches can be timed further.
    """

    pairs: tuple[PairEffect, ...]
    overall: Interval | None
    validation: Validation | None
    e_value: float | None
    needed: float
    quality: QualityReport
    bound_log: float
    screened: bool
    evaluated: bool
    pair_is_up: bool

    @property
    def exploratory(self) -> int:
        """Pairs of the quick and full stages."""
        return sum(not pair.validation for pair in self.pairs)

    @property
    def validated(self) -> int:
        """Pairs of the validation."""
        return len(self.pairs) - self.exploratory

    @property
    def beyond(self) -> bool:
        """Whether the whole interval is beyond min_effect."""
        return self.overall is not None and self.overall.high_log < self.bound_log

    @property
    def convincing(self) -> bool:
        """Whether the whole interval is beyond min_effect, and so strongly that support may be called."""
        return self.beyond and self.e_value is not None and self.e_value >= self.needed

    @property
    def short(self) -> bool:
        """Whether the whole interval says that the gain is smaller than min_effect."""
        return self.overall is not None and self.overall.low_log > self.bound_log

    @property
    def agrees(self) -> bool:
        """Whether the validation alone agrees: its mean beyond min_effect, its one-sided interval below 0."""
        found = self.validation
        return found is not None and found.mean_log < self.bound_log and found.high_log < 0


def read(plan: StoppingPlan, evidence: Evidence) -> Reading:
    """Reduce evidence that has passed the gates."""
    pairs = pair_effects(evidence, plan.metric)
    noises = pair_noises(pairs, evidence.noise) if pairs else ()
    return Reading(
        pairs=pairs,
        overall=interval(pairs, noises, plan.alpha) if noises else None,
        validation=_validation(pairs, noises, plan.alpha),
        e_value=e_value_below(pairs, noises, bound_of(plan)) if noises else None,
        needed=1 / plan.support_level,
        quality=quality_report(plan, evidence),
        bound_log=bound_of(plan),
        screened=plan.latency_only or bool(evidence.of(Arm.CANDIDATE, Stage.SCREEN, Stage.EVALUATE)),
        evaluated=plan.latency_only or bool(evidence.of(Arm.CANDIDATE, Stage.EVALUATE)),
        pair_is_up=bool(evidence.launches) and evidence.launches[-1].stage in TIMED_STAGES,
    )


def _validation(pairs: Sequence[PairEffect], noises: Sequence[PairNoise], alpha: float) -> Validation | None:
    alone = [pair for pair in pairs if pair.validation]
    if not alone or not noises:
        return None
    mean = fmean(pair.effect_log for pair in alone)
    return Validation(mean, one_look_high(alone, noises[-1], alpha))

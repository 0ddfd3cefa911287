"""What the evidence says by now, reduced to the few values that the judge's rules read. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from agent.judge.interval import Interval, PairNoise, interval, pair_noise, side_alpha
from agent.judge.pairs import TIMED_STAGES, PairEffect, pair_effects
from agent.judge.quality import QualityReport, quality_report
from agent.judge.scale import bound_of
from experiments.measurement.evidence import Arm, Evidence, Stage
from experiments.measurement.plan import StoppingPlan


@dataclass(frozen=True)
class Reading:
    """The pairs, the interval over all of them, the validation's own, and the quality.

    `overall` misses at each side with alpha / (2 · looks); `validation` with alpha. Both are None while no
    degree of freedom tells the noise. `bound_log` is log(1 − min_effect).
    `screened`: the candidate's weights were scored; `evaluated`: in the configuration that is judged.
    `pair_is_up`: nothing was scored since the last blocks, so that its launches can be timed further.
    """

    pairs: tuple[PairEffect, ...]
    overall: Interval | None
    validation: Interval | None
    noise: PairNoise | None
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
    noise = pair_noise(pairs, evidence.noise)
    validation = [pair for pair in pairs if pair.validation]
    return Reading(
        pairs=pairs,
        overall=interval(pairs, noise, side_alpha(plan)) if pairs and noise else None,
        validation=interval(validation, noise, plan.alpha) if validation and noise else None,
        noise=noise,
        quality=quality_report(plan, evidence),
        bound_log=bound_of(plan),
        screened=bool(evidence.of(Arm.CANDIDATE, Stage.SCREEN, Stage.EVALUATE)),
        evaluated=bool(evidence.of(Arm.CANDIDATE, Stage.EVALUATE)),
        pair_is_up=bool(evidence.launches) and evidence.launches[-1].stage in TIMED_STAGES,
    )

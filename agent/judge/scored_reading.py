"""What scoring has shown by now, of a claim on quality or bytes. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from agent.judge.noninferiority import Quality
from agent.judge.quality import QualityReport
from agent.judge.scored_effect import ScoredEffect
from experiments.measurement.evidence import Metric


@dataclass(frozen=True)
class ScoredReading:
    """What was scored by now: the first evaluation, the validation alone, both together, and the guardrail.

    `first` and `overall` miss at each side with alpha / 4; `validation` with alpha, so that one side of it is
    a one-sided test at alpha; `strict` as `overall` does, or with the level of support where that is less,
    whose inverse is `needed`. None where too little was paired. `bound` is the effect that `min_effect`
    asks.
    """

    metric: Metric
    first: ScoredEffect | None
    validation: ScoredEffect | None
    overall: ScoredEffect | None
    strict: ScoredEffect | None
    needed: float
    quality: QualityReport
    bound: float
    evaluated: bool
    validated: bool

    @property
    def now(self) -> ScoredEffect | None:
        """The effect with the interval of the last look."""
        return self.overall if self.validated else self.first

    @property
    def short(self) -> bool:
        """Whether the whole interval says that the gain is smaller than min_effect."""
        return self.now is not None and self.now.low > self.bound

    @property
    def beyond(self) -> bool:
        """Whether the whole interval of the last look is beyond min_effect."""
        return self.now is not None and self.now.high < self.bound

    @property
    def convincing(self) -> bool:
        """Whether everything scored lies beyond min_effect at the level of support as well."""
        return self.strict is not None and self.strict.high < self.bound

    @property
    def e_value(self) -> float | None:
        """That of "the gain is smaller than min_effect", of what was scored in all; None before the second
        look, and for bytes, which are counted."""
        if not self.validated or self.strict is None or self.metric is Metric.STEP_WEIGHT_BYTES:
            return None
        return self.needed if self.convincing else 0.0

    @property
    def settled(self) -> bool:
        """Whether nothing that a further part could score would make the claim supported."""
        quality = self.quality
        return self.first is None or self.short or quality.state == Quality.WORSE or quality.drafting_open

    @property
    def agrees(self) -> bool:
        """Whether the validation alone agrees."""
        found = self.validation
        return found is not None and found.mean < self.bound and found.high < 0

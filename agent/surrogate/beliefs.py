"""The surrogate's face: everything that is believed about any configuration, in one value. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.proposers.port import LATENCY_METRICS, Trial
from agent.surrogate.carried import Carried
from agent.surrogate.cost import CostBelief
from agent.surrogate.cost_priors import REFERENCE_PRIORS, CostPriors
from agent.surrogate.feasibility import FeasibilityBelief, Tried
from agent.surrogate.levers import LeverView
from agent.surrogate.physics import Physics
from agent.surrogate.quality import QualityBelief
from agent.surrogate.residual import LatencyBelief
from agent.surrogate.weight_bytes import WeightBytesBelief
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Margins, Prediction
from experiments.space.configuration import Configuration
from experiments.space.space import Space


@dataclass(frozen=True)
class Belief:
    """What is believed of one candidate: log of its TPOT over the control's, the probabilities that quality
    holds and that it runs, the expected seconds of its experiment, and which of them build what is not there,
    by artifact. `launches_sd_log`: what of the prediction's spread is between launches, and won by none."""

    prediction: Prediction
    p_quality: float
    p_feasible: float
    cost_s: float
    builds_s: Mapping[str, float] = field(default_factory=dict)
    launches_sd_log: float = 0.0


@dataclass(frozen=True)
class Beliefs:
    """Physics and everything that trials taught. Built anew after each verdict by `learn`."""

    latency: LatencyBelief
    quality: QualityBelief
    feasibility: FeasibilityBelief
    cost: CostBelief
    weights: WeightBytesBelief

    @classmethod
    def learn(
        cls,
        space: Space,
        physics: Physics,
        trials: Sequence[Trial],
        margins: Margins,
        built: frozenset[str] = frozenset(),
        priors: CostPriors = REFERENCE_PRIORS,
        *,
        judges_quality: bool = True,
        carried: Sequence[Carried] = (),
        swept: Sequence[Tried] = (),
    ) -> Beliefs:
        """What is believed after these trials, in the order they were judged.

        `built` adds keys of artifacts that exist from elsewhere (`cost.build_keys`); `priors` are the
        costs that are expected before anything was tested; `judges_quality` is False in a campaign of times
        alone; `carried` are trials of other campaigns, which teach everything but weights, the less the more
        their ground differs and the worse they foretell what comes out here; `swept` is what the baseline's
        sweep tried, which teaches what runs.
        """
        view = LeverView.of(space, physics.baseline)
        return cls(
            LatencyBelief.learn(view, physics, trials, carried),
            QualityBelief.learn(view, margins, trials, judged=judges_quality, carried=carried),
            FeasibilityBelief.learn(view, trials, carried, swept),
            CostBelief.learn(view, trials, built, priors, carried),
            WeightBytesBelief(physics.shape, physics.profile),
        )

    def after(self, trial: Trial) -> Beliefs:
        """What is believed after one trial more, without looking at those before it: as `learn` of all of
        them, but for rounding. Raises `ValueError` for one that reports an acceptance length, or a profile of
        its step by kernels."""
        return replace(
            self,
            latency=self.latency.after(trial),
            quality=self.quality.after(trial),
            feasibility=self.feasibility.after(trial),
            cost=self.cost.after(trial),
        )

    def predict(
        self, control: Configuration, candidate: Configuration, metric: Metric | None = None
    ) -> Prediction:
        """Log of the candidate's TPOT over the control's, as a normal; or of another metric of hypotheses.

        `step_weight_bytes` by arithmetic, `nll_bits` from what is believed of quality, both as log ratios;
        `task_correct` weakly, as the share of items lost. Latency metrics and None stand for TPOT. Raises
        `ValueError` for a metric that no hypothesis is about.
        """
        if metric is None or metric in LATENCY_METRICS:
            return self.latency.predict([(control, candidate)])[0]
        if metric == Metric.STEP_WEIGHT_BYTES:
            return self.weights.predict(control, candidate)
        if metric == Metric.NLL_BITS:
            return self.quality.bits(control, candidate)
        if metric == Metric.TASK_CORRECT:
            return self.quality.tasks_lost(control, candidate)
        raise ValueError(f"no hypothesis is about {metric}")

    def p_quality(self, candidate: Configuration) -> float:
        """The probability that the candidate keeps the campaign's quality limits against the baseline."""
        return self.quality.probability([candidate])[0]

    def p_feasible(self, candidate: Configuration) -> float:
        """The probability that the candidate runs."""
        return self.feasibility.probability([candidate])[0]

    def cost_s(self, candidate: Configuration) -> float:
        """The expected seconds of an experiment on the candidate."""
        return self.cost.expected_s([candidate], [self.p_quality(candidate)])[0]

    def about(self, pairs: Sequence[tuple[Configuration, Configuration]]) -> list[Belief]:
        """All of it for many pairs (control, candidate) at once; configurations may repeat."""
        candidates = list(dict.fromkeys(candidate for _, candidate in pairs))
        distinct = list(dict.fromkeys(pairs))
        predictions = dict(zip(distinct, self.latency.predict(distinct), strict=True))
        chances = self.quality.probability(candidates)
        quality = dict(zip(candidates, chances, strict=True))
        feasible = dict(zip(candidates, self.feasibility.probability(candidates), strict=True))
        cost = dict(zip(candidates, self.cost.expected_s(candidates, chances), strict=True))
        builds = dict(zip(candidates, self.cost.builds_s(candidates, chances), strict=True))
        between = self.latency.launches_sd_log
        return [
            Belief(predictions[pair], quality[arm], feasible[arm], cost[arm], builds[arm], between)
            for pair in pairs
            for arm in pair[1:]
        ]

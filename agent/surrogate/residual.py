"""What measurements add to the physics prior of latency. Pure.

A configuration's log TPOT over the baseline's is the physics expectation of each lever's setting, plus a
residual that is linear in features: one *lever* feature, shared by all settings of the lever ("the prior is
wrong about pruning"), and one feature a *knob value* ("and about three layers in particular"). The features
are scaled so that together they carry the expectation's standard deviation, `LEVER_SHARE` of its variance in
the lever. A verdict's effect is a row: features of the candidate minus those of the control, weighted by the
effect's standard error. Drafting has a feature more for each target that it was not made for. Refuted and
inconclusive ones teach like supported ones; confounded ones don't, since something else moved them, and
effects on other metrics than latency don't either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from agent.proposers.port import Trial
from agent.surrogate.acceptance import AcceptanceBelief
from agent.surrogate.levers import LeverView
from agent.surrogate.linear import Features, LinearBelief
from agent.surrogate.physics import Physics
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration

LEVER_SHARE = 0.6
"""Share of an expectation's variance that all settings of its lever have in common."""

INTERACTION_SD_LOG = 0.02
"""What adding levers on the log scale leaves out, per measured or predicted ratio."""

EFFECT_SE_LOG = 0.05
"""Standard error of an effect that came without one (no degrees of freedom): one launch pair of a noisy
CPU."""


@dataclass(frozen=True)
class LatencyBelief:
    """Physics corrected by trials."""

    view: LeverView
    physics: Physics
    belief: LinearBelief

    @classmethod
    def learn(cls, view: LeverView, physics: Physics, trials: Sequence[Trial]) -> LatencyBelief:
        """The belief after all trials that measured an effect on latency."""
        rows, residuals, variances = [], [], []
        physics = replace(physics, acceptance=AcceptanceBelief.learn(view, trials))
        empty = cls(view, physics, LinearBelief.learn([], [], []))
        for trial in trials:
            row = empty._row(trial)
            if row is not None:
                rows.append(row[0])
                residuals.append(row[1])
                variances.append(row[2])
        return cls(view, physics, LinearBelief.learn(rows, residuals, variances))

    def after(self, trial: Trial) -> LatencyBelief:
        """The belief after one trial more, that reports no acceptance length: one that does changes what is
        expected of the others too, and raises `ValueError`."""
        if trial.acceptance_length is not None:
            raise ValueError("what is believed of acceptance is learnt from all trials at once")
        row = self._row(trial)
        return self if row is None else replace(self, belief=self.belief.after(*row))

    def _row(self, trial: Trial) -> tuple[Features, float, float] | None:
        """Features, residual and its variance of a trial; None of one that teaches nothing."""
        if trial.effect_log is None or trial.outcome == Outcome.CONFOUNDED or not trial.on_objective:
            return None
        mean, features = self.contrast(trial.control, trial.candidate)
        error = trial.effect_se_log if trial.effect_se_log is not None else EFFECT_SE_LOG
        return features, trial.effect_log - mean, error**2 + INTERACTION_SD_LOG**2

    def contrast(self, control: Configuration, candidate: Configuration) -> tuple[float, Features]:
        """Physics mean of log(candidate / control), and the features of the residual."""
        (before, less), (after, more) = self._of(control), self._of(candidate)
        features = dict(more)
        for name, value in less.items():
            features[name] = features.get(name, 0.0) - value
        return after - before, features

    @cached_property
    def _known(self) -> dict[Configuration, tuple[float, Features]]:
        """What was derived before: many pairs share a control."""
        return {}

    def _of(self, configuration: Configuration) -> tuple[float, Features]:
        """Physics mean of log(configuration / baseline), and the features of the residual."""
        if configuration not in self._known:
            mean, features = 0.0, dict[str, float]()
            settings = self.view.settings(configuration)
            target = self.view.target(settings)
            for lever, setting in settings.items():
                expected = self.physics.expect(lever, setting, target)
                mean += expected.mean_log
                shared = expected.sd_log * math.sqrt(LEVER_SHARE)
                own = expected.sd_log * math.sqrt((1 - LEVER_SHARE) / len(setting))
                features[lever] = features.get(lever, 0.0) + shared
                for knob, value in setting:
                    name = f"{knob}={value!r}"
                    features[name] = features.get(name, 0.0) + own
                for name, spread in expected.joint.items():
                    features[name] = features.get(name, 0.0) + spread
            self._known[configuration] = mean, features
        return self._known[configuration]

    def predict(self, pairs: Sequence[tuple[Configuration, Configuration]]) -> list[Prediction]:
        """Log of candidate over control for each (control, candidate), as a normal."""
        contrasts = [self.contrast(control, candidate) for control, candidate in pairs]
        means, variances = self.belief.predict([features for _, features in contrasts])
        return [
            Prediction(
                log_ratio_mean=physics + float(mean),
                log_ratio_sd=math.sqrt(float(variance) + INTERACTION_SD_LOG**2),
            )
            for (physics, _), mean, variance in zip(contrasts, means, variances, strict=True)
        ]

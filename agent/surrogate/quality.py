"""The probability that a candidate holds the campaign's quality limits. Pure.

Two factors, taken as independent:

- **Bits per byte.** The log of candidate over baseline bits is a normal whose prior adds by lever: threads
  and compilation change nothing but rounding; a narrower format a little; each pruned layer of a small model
  costs more than the one before. Measured ratios correct it by the regression that latency uses. The factor
  is the chance that the ratio lies within the margin, less `TEST_REACH_LOG` that the one-sided test takes.
- **Tasks.** A Beta count for each lever's setting of how often the task limit was kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.special import ndtr

from agent.proposers.port import Trial
from agent.surrogate.levers import LeverView, Setting
from agent.surrogate.linear import Features, LinearBelief
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins
from experiments.space.configuration import Configuration

BITS_A_LAYER_LOG = 0.015
"""Loss of bits that the first pruned layer is expected to cost: beyond a margin of 1 % more often than
not."""

BITS_LAYER_POWER = 1.5
"""The loss grows with this power of the layers removed: errors of layers compound (FACTS: nor additive)."""

BITS_LAYER_SD_LOG = 0.02
"""Standard deviation of the loss for one layer; grows with the same power."""

BITS_BY_LEVER: Mapping[str, tuple[float, float]] = {
    "compile": (0.0, 0.0005),
    "threads": (0.0, 0.0002),
    "dtype": (0.001, 0.003),
    "quantization": (0.005, 0.01),
}
"""Mean and standard deviation of the log ratio of bits for the other levers; judgement."""

BITS_UNKNOWN = (0.002, 0.01)
"""The same for a lever that is not named here."""

TEST_REACH_LOG = 0.002
"""How far below the margin a ratio must lie for the one-sided test to see it: its bound on a few dozen
documents."""

BITS_SE_LOG = 0.001
"""Error with which a measured ratio speaks of the ratio on all text."""

TASK_PRIOR: Mapping[str, tuple[float, float]] = {"pruning": (2.0, 1.0), "quantization": (4.0, 1.0)}
"""Beta counts (kept, lost) of the task limit before any trial."""

TASK_PRIOR_OTHERWISE = (19.0, 1.0)
"""The same for levers that don't touch the weights."""

SHARED = 0.6
"""Share of a lever's variance that all its settings have in common."""


@dataclass(frozen=True)
class QualityBelief:
    """What is believed of quality after the trials."""

    view: LeverView
    margins: Margins
    bits: LinearBelief
    tasks: Mapping[tuple[str, Setting], tuple[float, float]]

    @classmethod
    def learn(cls, view: LeverView, margins: Margins, trials: Sequence[Trial]) -> QualityBelief:
        """The belief after all trials that measured quality; bits are taken relative to the baseline."""
        rows, residuals = [], []
        tasks: dict[tuple[str, Setting], tuple[float, float]] = {}
        for trial in trials:
            if trial.outcome == Outcome.CONFOUNDED:
                continue
            settings = view.settings(trial.candidate)
            if trial.bits_ratio_log is not None and settings:
                mean, features = _bits_prior(settings)
                rows.append(features)
                residuals.append(trial.bits_ratio_log - mean)
            if trial.task_points is not None:
                kept = trial.task_points >= -margins.task_points
                for key in settings.items():
                    good, bad = tasks.get(key, (0.0, 0.0))
                    # who is to blame for a loss of several levers is not known: each takes its share
                    tasks[key] = (good + kept, bad + (not kept) / len(settings))
        return cls(view, margins, LinearBelief.learn(rows, residuals, [BITS_SE_LOG**2] * len(rows)), tasks)

    def probability(self, candidates: Sequence[Configuration]) -> list[float]:
        """For each candidate the probability that its quality holds against the baseline's."""
        settings = [self.view.settings(candidate) for candidate in candidates]
        priors = [_bits_prior(found) for found in settings]
        means, variances = self.bits.predict([features for _, features in priors])
        limit = math.log1p(self.margins.bits_per_byte) - TEST_REACH_LOG
        found = []
        for (prior, _), mean, variance, levers in zip(priors, means, variances, settings, strict=True):
            spread = math.sqrt(float(variance) + BITS_SE_LOG**2)
            held = float(ndtr((limit - prior - float(mean)) / spread))
            found.append(held * math.prod(self._tasks_kept(key) for key in levers.items()))
        return found

    def _tasks_kept(self, key: tuple[str, Setting]) -> float:
        lever, setting = key
        good, bad = TASK_PRIOR.get(lever, TASK_PRIOR_OTHERWISE)
        if lever == "pruning":
            bad *= _layers(setting)
        seen_good, seen_bad = self.tasks.get(key, (0.0, 0.0))
        return (good + seen_good) / (good + bad + seen_good + seen_bad)


def _bits_prior(settings: Mapping[str, Setting]) -> tuple[float, Features]:
    total, features = 0.0, dict[str, float]()
    for lever, setting in settings.items():
        mean, spread = BITS_BY_LEVER.get(lever, BITS_UNKNOWN)
        if lever == "pruning":
            growth = _layers(setting) ** BITS_LAYER_POWER
            mean, spread = BITS_A_LAYER_LOG * growth, BITS_LAYER_SD_LOG * growth
        total += mean
        features[lever] = spread * math.sqrt(SHARED)
        for knob, value in setting:
            features[f"{knob}={value!r}"] = spread * math.sqrt((1 - SHARED) / len(setting))
    return total, features


def _layers(setting: Setting) -> int:
    count = dict(setting).get("pruning.layers_removed")
    return count if isinstance(count, int) else 1

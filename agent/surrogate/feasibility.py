"""The probability that a configuration runs at all, learnt from what did not. Pure.

For each lever that differs from the baseline a Beta count of runs and failures, and below it one for each of
its settings, whose prior is the lever's mean with the weight of `SETTING_WEIGHT` trials. The probability is
the product over the levers. A failure of a change of several levers is blamed on each by its share, since
nobody knows which it was. A candidate that failed itself runs again with `FAILED_BEFORE` only: it is not run
again blindly. A failure of the control says nothing about the candidate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent.proposers.port import Trial
from agent.surrogate.carried import COUNTS, Carried, bounded, trials_of
from agent.surrogate.levers import LeverView, Setting
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration

PRIOR = (9.8, 0.2)
"""Runs and failures of a lever before any trial: one setting in fifty does not run, which weighs as much as
ten trials. In the reference engine's table 5 of 301 settings of levers did not, in the H200's none of 41, and
compilers, drafters and quantizers no more often than others."""

SETTING_WEIGHT = 2.0
"""How many trials of its own a setting needs to weigh as much as its lever."""

FAILED_BEFORE = 0.05
"""The chance that the very same configuration, having failed, runs the next time."""

CONTROL_FAILED = "control"
"""Failure kind of an experiment whose control did not run."""


@dataclass(frozen=True)
class FeasibilityBelief:
    """Counts of runs and failures after the trials."""

    view: LeverView
    levers: Mapping[str, tuple[float, float]]
    settings: Mapping[tuple[str, Setting], tuple[float, float]]
    failed: frozenset[Configuration]

    @classmethod
    def learn(
        cls, view: LeverView, trials: Sequence[Trial], carried: Sequence[Carried] = ()
    ) -> FeasibilityBelief:
        """Count every trial whose candidate ran or failed; those `carried` over from other campaigns count
        less, and what failed there may be tried here."""
        others = cls(view, {}, {}, frozenset())._with(trials_of(carried), COUNTS)
        levers, settings = bounded(others.levers), bounded(others.settings)
        return replace(others, levers=levers, settings=settings, failed=frozenset())._with(trials)

    def after(self, trial: Trial) -> FeasibilityBelief:
        """The counts after one trial more."""
        return self._with([trial])

    def _with(self, trials: Sequence[Trial], weight: float = 1.0) -> FeasibilityBelief:
        levers, settings, failed = dict(self.levers), dict(self.settings), set(self.failed)
        for trial in trials:
            if trial.failure_kind == CONTROL_FAILED:
                continue
            ran = trial.outcome != Outcome.INFEASIBLE
            changed = self.view.settings(trial.candidate)
            if ran:
                failed.discard(trial.candidate)
            else:
                failed.add(trial.candidate)
            for lever, setting in changed.items():
                step = (weight, 0.0) if ran else (0.0, weight / len(changed))
                levers[lever] = _add(levers.get(lever, (0.0, 0.0)), step)
                settings[lever, setting] = _add(settings.get((lever, setting), (0.0, 0.0)), step)
        return FeasibilityBelief(self.view, levers, settings, frozenset(failed))

    def probability(self, candidates: Sequence[Configuration]) -> list[float]:
        """For each candidate the probability that it runs."""
        return [self._of(candidate) for candidate in candidates]

    def _of(self, candidate: Configuration) -> float:
        if candidate in self.failed:
            return FAILED_BEFORE
        return math.prod(self._setting(*key) for key in self.view.settings(candidate).items())

    def _setting(self, lever: str, setting: Setting) -> float:
        good, bad = _add(PRIOR, self.levers.get(lever, (0.0, 0.0)))
        mean = good / (good + bad)
        ran, failures = self.settings.get((lever, setting), (0.0, 0.0))
        return (SETTING_WEIGHT * mean + ran) / (SETTING_WEIGHT + ran + failures)


def _add(left: tuple[float, float], right: tuple[float, float]) -> tuple[float, float]:
    return left[0] + right[0], left[1] + right[1]

"""Optuna's tree-structured Parzen estimator, multivariate and grouped, over the table's space."""

from __future__ import annotations

import random
from collections.abc import Sequence

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import TrialState, create_trial

from agent.proposers.tpe_sampler import tpe_sampler
from agent.replay.planners.nearest import settled
from agent.replay.planners.values import log_ratios
from agent.replay.port import Problem, Told, untried
from experiments.space.configuration import Configuration, KnobValue

STARTUP_TRIALS = 3
"""Trials, trial 0 among them, before the estimator replaces random choice."""


class TpePlanner:
    """TPE told of every trial, trial 0 first; a point that is not in the table becomes the nearest one."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self._problem, self._random = problem, random.Random(seed)
        self._sampler = tpe_sampler(seed, STARTUP_TRIALS)

    def ask(self, history: Sequence[Told]) -> Configuration | None:
        """What the sampler draws, given all that was told; None after the last configuration."""
        left = untried(self._problem, history)
        if not left:
            return None
        study = self._study(history)
        return settled(lambda: self._drawn(study), left, self._random)

    def tell(self, told: Told) -> None:
        """Nothing: the study is made of the history."""

    def _study(self, history: Sequence[Told]) -> optuna.Study:
        study = optuna.create_study(direction="minimize", sampler=self._sampler)
        for configuration, value in log_ratios(self._problem, history):
            distributions = self._distributions(configuration)
            params = {name: configuration[name] for name in distributions}
            study.add_trial(create_trial(params=params, distributions=distributions, value=value))
        return study

    def _distributions(self, configuration: Configuration) -> dict[str, BaseDistribution]:
        return {
            knob.name: CategoricalDistribution(knob.values)
            for knob in self._problem.space.active(configuration)
            if len(knob.values) > 1  # of a knob with one value nothing can be chosen
        }

    def _drawn(self, study: optuna.Study) -> Configuration:
        trial, chosen = study.ask(), dict[str, KnobValue]()
        for knob in self._problem.space.in_order:
            if knob.unmet(chosen) is not None:
                continue
            chosen[knob.name] = knob.values[0]
            if len(knob.values) > 1:
                value = trial.suggest_categorical(knob.name, knob.values)
                assert value is not None  # it is one of the knob's values
                chosen[knob.name] = value
        study.tell(trial, state=TrialState.FAIL)  # a point that is only asked for teaches nothing
        return Configuration.of(chosen)

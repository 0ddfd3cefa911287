"""SMAC3 over the table: its random forest, its expected improvement and its share of random choices.

The parts and their settings are those of SMAC3's facade for hyperparameters
(`HyperparameterOptimizationFacade`): a random forest of log-scaled costs, log expected improvement, one
choice in five at random. Only the search for the maximum differs: SMAC3 samples a space and climbs, and here
every configuration of the table that was not tried is looked at, which finds the maximum for certain.
Start-up is trial 0 and two random choices.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from agent.replay.planners.values import log_ratios
from agent.replay.port import Problem, Told, untried
from configs.errors import UsageError
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import is_among
from experiments.space.space import Space

STARTUP_TRIALS = 3
"""Trials, trial 0 among them, before the forest replaces random choice."""

FOREST: dict[str, Any] = {
    "log_y": True,
    "n_trees": 10,
    "ratio_features": 1.0,
    "min_samples_split": 2,
    "min_samples_leaf": 1,
    "max_depth": 2**20,
    "bootstrapping": True,
    "max_leaf_nodes": 1024,
    "n_jobs": 1,
}
"""The forest of SMAC3's facade (2.4), but in one thread and with room for 1,024 leaves in place of 2²⁰: trees
of few trials are the same, and grow in a hundredth of the time."""


class SmacPlanner:
    """SMAC3 told of every trial, trial 0 first."""

    def __init__(self, problem: Problem, seed: int) -> None:
        """Raises `UsageError` where SMAC3 is not installed."""
        try:
            from smac import Scenario
            from smac.facade import HyperparameterOptimizationFacade as Facade
            from smac.model.random_forest import RandomForest
        except ImportError as error:
            raise UsageError(
                f"SMAC3 is not installed ({error}).", "Install it: pip install 'autoinfer[smac]'"
            ) from None
        logging.getLogger("smac").setLevel(logging.ERROR)
        self._problem, self._random = problem, random.Random(seed)
        space = _config_space(problem.space, seed)
        scenario = Scenario(space, deterministic=True, n_trials=len(problem.configurations), seed=seed)
        self._model = RandomForest(space, seed=seed, **FOREST)
        self._acquisition = Facade.get_acquisition_function(scenario)
        self._encoder = Facade.get_runhistory_encoder(scenario)
        self._by_chance = Facade.get_random_design(scenario)
        self._points = {each: _point(space, problem.space, each) for each in problem.configurations}

    def ask(self, history: Sequence[Told]) -> Configuration | None:
        """What promises the largest expected improvement, or one at random; None after the last."""
        left = untried(self._problem, history)
        if not left:
            return None
        if len(history) < STARTUP_TRIALS or self._by_chance.check(len(history)):
            return self._random.choice(left)
        self._learn(history)
        values = self._acquisition([self._points[each] for each in left]).ravel()
        return left[int(np.argmax(values))]

    def tell(self, told: Told) -> None:
        """Nothing: the forest is made of the history."""

    def _learn(self, history: Sequence[Told]) -> None:
        from smac.runhistory import RunHistory

        run_history = RunHistory()
        for number, (configuration, value) in enumerate(log_ratios(self._problem, history)):
            run_history.add(self._points[configuration], cost=math.exp(value), seed=number)
        self._encoder.runhistory = run_history
        x, y = self._encoder.transform()
        self._model.train(x, y)
        best = float(self._model.predict_marginalized(x)[0].min())
        self._acquisition.update(model=self._model, eta=best, num_data=len(history), X=x)


def _config_space(space: Space, seed: int) -> Any:
    """The knobs as SMAC3 has them: categories that stand for the places of values, with conditions; of a knob
    with one value nothing can be chosen, so that it is left out."""
    from ConfigSpace import AndConjunction, CategoricalHyperparameter, ConfigurationSpace, InCondition

    found = ConfigurationSpace(seed=seed)
    made = {
        knob.name: CategoricalHyperparameter(knob.name, [str(k) for k in range(len(knob.values))])
        for knob in space.in_order
        if len(knob.values) > 1
    }
    found.add(*made.values())
    for knob in space.in_order:
        conditions = [
            InCondition(made[knob.name], made[other], _places(space, other, values))
            for other, values in knob.when
            if knob.name in made and other in made
        ]
        if conditions:
            found.add(conditions[0] if len(conditions) == 1 else AndConjunction(*conditions))
    return found


def _places(space: Space, knob: str, values: Sequence[KnobValue]) -> list[str]:
    return [str(k) for k, value in enumerate(space.knob(knob).values) if is_among(value, values)]


def _point(config_space: Any, space: Space, configuration: Configuration) -> Any:
    from ConfigSpace import Configuration as Point

    values = {
        name: _places(space, name, [value])[0]
        for name, value in configuration.items()
        if name in config_space
    }
    return Point(config_space, values=values)

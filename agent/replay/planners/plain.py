"""Planners without a model of anything: at random, in the order of the grid, greedy. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence

from agent.replay.planners.nearest import distance
from agent.replay.port import Problem, Told, accepted, untried
from experiments.space.configuration import Configuration


class RandomPlanner:
    """Every configuration once, in an order drawn from the seed."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self._order = list(problem.configurations)
        random.Random(seed).shuffle(self._order)

    def ask(self, history: Sequence[Told]) -> Configuration | None:
        """The next of the order that was not tried; None after the last."""
        tried = {told.configuration for told in history}
        return next((each for each in self._order if each not in tried), None)

    def tell(self, told: Told) -> None:
        """Learns nothing."""


class GridPlanner:
    """Every configuration once, counted through knob by knob; the seed changes nothing."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self._problem = problem

    def ask(self, history: Sequence[Told]) -> Configuration | None:
        """The next of the grid that was not tried; None after the last."""
        return next(iter(untried(self._problem, history)), None)

    def tell(self, told: Told) -> None:
        """Learns nothing."""


class GreedyPlanner:
    """Steps from the best so far: of what was not tried, one that differs from it in the fewest knobs, drawn
    from the seed where there are several."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self._problem, self._random = problem, random.Random(seed)

    def ask(self, history: Sequence[Told]) -> Configuration | None:
        """The nearest to the best so far; None after the last."""
        left = untried(self._problem, history)
        if not left:
            return None
        good = [told for told in history if accepted(self._problem, history[0], told)]
        best = min(good, key=lambda told: told.mean_ms).configuration
        least = min(distance(best, each) for each in left)
        return self._random.choice([each for each in left if distance(best, each) == least])

    def tell(self, told: Told) -> None:
        """Nothing: the best is looked up in the history."""

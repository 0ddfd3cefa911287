"""What optimizers that want one number a trial are told. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agent.replay.port import Problem, Told, accepted
from experiments.space.configuration import Configuration

PENALTY_LOG = 0.3
"""How much worse than the worst measured value a trial is told that did not run or lost its quality: on a log
scale, a third slower."""


def log_ratios(problem: Problem, history: Sequence[Told]) -> list[tuple[Configuration, float]]:
    """Each trial's log latency over trial 0's; what did not run or lost its quality is worse than all."""
    start = math.log(history[0].mean_ms)
    found = [
        (told.configuration, math.log(told.mean_ms) - start if accepted(problem, history[0], told) else None)
        for told in history
    ]
    worst = max(value for _, value in found if value is not None)
    return [(each, worst + PENALTY_LOG if value is None else value) for each, value in found]

"""What every planner must keep, whoever wrote it: run `check_planner` against a factory of your own."""

from __future__ import annotations

from agent.replay.course import Budget, course
from agent.replay.port import Planner, PlannerFactory
from agent.replay.table import Table


class Silent:
    """A planner that is never asked for a prediction."""

    def __init__(self, planner: Planner) -> None:
        self.ask, self.tell = planner.ask, planner.tell


def check_planner(table: Table, name: str, factory: PlannerFactory) -> None:
    """It asks for what the table has alone, is deterministic for a seed, ends, and lives with failures; what
    it predicts, if it does, changes nothing of that."""
    whole = Budget(len(table.rows) - 1)
    first = course(table, name, factory, 3, whole)
    assert first == course(table, name, factory, 3, whole), "equal seeds must give equal courses"
    assert [step.trial for step in first.steps] == list(range(len(first.steps)))
    assert first.steps[0].gain == 0, "all begin with trial 0"
    silent = course(table, name, lambda problem, seed: Silent(factory(problem, seed)), 3, whole)
    assert [step.measured for step in silent.steps] == [step.measured for step in first.steps]
    short = course(table, name, factory, 3, Budget(2))
    assert short.steps == first.steps[:3], "what comes later must not change what came before"

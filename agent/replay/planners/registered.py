"""Planners by the names under which they are registered."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import cast

from agent.replay.port import PlannerFactory
from configs.registry import Port, names, registered

ORDER = ("ours", "ours-without-physics", "ours-without-learning", "tpe", "smac", "random", "greedy", "grid")
"""How the planners that come with autoinfer are listed; others follow by name."""


def planner_names() -> list[str]:
    """What is registered, in the order of every table."""
    found = names(Port.PLANNER)
    return sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def load_planner(name: str) -> PlannerFactory:
    """The factory of this name; raises `UsageError` when none is registered, or it can't be loaded. What its
    module prints goes to the standard error."""
    with redirect_stdout(sys.stderr):
        return cast(PlannerFactory, registered(Port.PLANNER, name))

"""A planned load of a table in words. Pure."""

from __future__ import annotations

from agent.tables.grid import Grid, PlannedLoad
from experiments.space.configuration import KnobValue
from experiments.space.knob import same_value

AMOUNTS = ("quantization.group_size", "drafting.draft_tokens")
"""Knobs whose default is told too."""


def told(grid: Grid, load: PlannedLoad) -> str:
    """A load in words: how it differs from the grid's first."""
    first = grid.loads[0]
    changes = [
        f"{each.knob}={each.after}"
        for each in first.configuration.changes_to(load.configuration)
        if each.after is not None and (each.before is not None or _tells(grid, each.knob, each.after))
    ]
    if load.stored not in (first.stored, "bfloat16"):
        changes.append(f"stored as {load.stored}")
    return ", ".join(changes) or "the grid's first"


def _tells(grid: Grid, knob: str, value: KnobValue) -> bool:
    """Whether a knob that only this load has says something: its default does not, but for amounts."""
    return knob in AMOUNTS or not same_value(value, grid.space.knob(knob).default)

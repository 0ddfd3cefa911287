"""Which lines of a journal were measured together: in one run, or on one GPU. Pure.

A run is what lies between one `begin` and the next. A journal is gone on with on other machines, which may
differ, so what lies between launches of two runs may be the machine's. Journals of before
30 November 2026 tell no GPU: of those only the run is known. So a table's rows are of one *main* group of
runs where that measured most of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from agent.tables.journal import Line, scope_of

RUN = "run"
"""The column of the runs that a row is of, by their places in the journal."""

Runs: TypeAlias = frozenset[int]
"""Runs that were measured together, by their places in the journal: one, or several that shared a GPU."""


@dataclass(frozen=True)
class Origin:
    """Where a line comes from: its run by its place in the journal, from 1 on (0 before the first `begin`),
    and the UUID of its GPU, None where that is not told."""

    run: int
    uuid: str | None

    def is_with(self, other: Origin) -> bool:
        """Whether both were measured in one run or on one GPU."""
        return self.run == other.run or (self.uuid is not None and self.uuid == other.uuid)


def with_origins(lines: Iterable[Line]) -> list[tuple[Origin, Line]]:
    """Each line with where it comes from, in the order of the journal."""
    found: list[tuple[Origin, Line]] = []
    run = 0
    for line in lines:
        run += line["kind"] == "begin"
        found.append((Origin(run, line["identity"].get("uuid")), line))
    return found


def run_groups(lines: Iterable[Line]) -> tuple[Runs, ...]:
    """The runs that measured cells of the grid, by what was measured together, the group that began last at
    the end. None of cells that a control was timed beside: that tells what machines differ by."""
    return tuple(runs for runs, _ in _measured_by_group(lines))


def main_runs(lines: Iterable[Line]) -> Runs:
    """The group that measured most of all cells of the grid, the last of such; empty where each has half of
    them at most."""
    groups = _measured_by_group(lines)
    every = {cell for _, cells in groups for cell in cells}
    most = max(groups, key=lambda each: (len(each[1]), max(each[0])), default=None)
    return most[0] if most is not None and 2 * len(most[1]) > len(every) else frozenset()


def main_last(lines: Iterable[Line]) -> list[tuple[Origin, Line]]:
    """The lines with where they come from, those of the main group last: the last of a load counts."""
    lines = list(lines)
    main = main_runs(lines)
    return sorted(with_origins(lines), key=lambda each: each[0].run in main)


def _measured_by_group(lines: Iterable[Line]) -> list[tuple[Runs, set[tuple[object, ...]]]]:
    """Each group with the cells that it measured: load, workload, and what with."""
    cells = [
        (origin, (line["load"], line["workload"]["key"], scope_of(line)))
        for origin, line in with_origins(lines)
        if line["kind"] == "cell" and "batch" not in line and not line.get("same")
    ]
    groups: list[set[Origin]] = []
    for origin in dict.fromkeys(origin for origin, _ in cells):
        joined = [group for group in groups if any(origin.is_with(each) for each in group)]
        groups = [group for group in groups if group not in joined] + [{origin}.union(*joined)]
    groups.sort(key=lambda group: max(origin.run for origin in group))
    return [
        (frozenset(each.run for each in group), {cell for origin, cell in cells if origin in group})
        for group in groups
    ]

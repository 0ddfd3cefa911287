"""What of a grid is left to measure. For the threads of all devices."""

from __future__ import annotations

import threading
from collections import deque

from agent.tables.grid import Grid, PlannedLoad, TableWorkload
from agent.tables.journal import Line, Measured


class Work:
    """The loads that are left, in the order of the grid; a load is left while one of its cells is."""

    def __init__(self, grid: Grid, measured: Measured) -> None:
        self.grid, self._measured = grid, measured
        self._lock = threading.Lock()
        self._left = deque(load for load in grid.loads if self.cells_left(load))

    def __len__(self) -> int:
        return len(self._left)

    def take(self) -> PlannedLoad | None:
        """The next load, None when there is none."""
        with self._lock:
            return self._left.popleft() if self._left else None

    def put_first(self, load: PlannedLoad) -> None:
        """Put back a load that was not begun."""
        with self._lock:
            self._left.appendleft(load)

    def put_last(self, load: PlannedLoad) -> bool:
        """Put a load that was launched at the end, if something of it is left: it failed and may be tried
        again, or more launches of it are wanted. Whether something is."""
        with self._lock:
            left = bool(self.cells_left(load))
            if left:
                self._left.append(load)
            return left

    def add(self, line: Line) -> None:
        """Count what was just written to the journal."""
        with self._lock:
            self._measured.add(line)

    def cells_left(self, load: PlannedLoad) -> list[TableWorkload]:
        """The cells of a load that are not measured yet and have not failed for good."""
        digest = self.grid.digest(load)
        if self._measured.load_is_over(digest):
            return []
        return [each for each in self.grid.workloads if not self._measured.cell_is_over(digest, each.key)]

    def is_profiled(self, load: PlannedLoad) -> bool:
        """Whether a profile of a load was asked for."""
        return self._measured.is_profiled(self.grid.digest(load))

    def same_left(self, load: PlannedLoad, beside: str) -> list[TableWorkload]:
        """The workloads of the grid's `same` that have not failed for good on a load while that goes on
        beside; none of a load that `same` does not name."""
        same, digest = self.grid.same, self.grid.digest(load)
        if same is None or digest not in same.loads:
            return []
        return [each for each in same.workloads if not self._measured.same_is_over(digest, each.key, beside)]

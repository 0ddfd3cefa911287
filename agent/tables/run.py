"""Measures a grid on one device or several, one thread each, until nothing is left or the budget is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from agent.tables.clock import Budget
from agent.tables.device import TableDevice, leased
from agent.tables.grid import Grid
from agent.tables.ground import JOURNAL_FILE
from agent.tables.journal import Journal, Measured, read_journal
from agent.tables.loading import Sources
from agent.tables.measure import DeviceRun
from agent.tables.work import Work
from configs.errors import UsageError
from experiments.telemetry.watching import GpuWatch, gpu_watches


@dataclass(frozen=True)
class TableRun:
    """A call that measures: the grid, on which devices, from where, how long, how many loads ahead of what is
    measured, how many come up together, and how many launches of each serve a cell; `with_profile` profiles
    each load when it is first measured.
    `gpu_watches` gives what makes the readers of a device, None where there is none; `wait` waits for so many
    seconds."""

    grid: Grid
    devices: Sequence[TableDevice]
    sources: Sources
    budget: Budget
    loads_ahead: int
    identity: Mapping[str, Any]
    command: str = ""
    loads_together: int = 1
    launches: int = 1
    with_profile: bool = False
    gpu_watches: Callable[[str], Callable[[], GpuWatch] | None] = gpu_watches
    wait: Callable[[float], None] = time.sleep

    @property
    def journal_path(self) -> Path:
        """Where measurements go."""
        return self.sources.folder / JOURNAL_FILE


@dataclass(frozen=True)
class Ended:
    """Why a call ended: `loads_left` are not measured yet, `reason` says why in a sentence."""

    loads_left: int
    reason: str


def work_of(run: TableRun) -> Work:
    """What of the grid is left.

    Raises `UsageError` for devices of several kinds, whose measurements could not stand in one table.
    """
    scopes = {device.scope for device in run.devices}
    if len(scopes) > 1:
        told = " and ".join(sorted(f"{name} with vLLM {version}" for name, version, _ in scopes))
        raise UsageError(f"The targets are of several kinds: {told}.", "Measure a table for each kind.")
    path = run.journal_path
    lines = read_journal(path) if path.is_file() else ()
    return Work(run.grid, Measured(lines, run.devices[0].scope, run.launches))


def measure(run: TableRun, tell: Callable[[str], None]) -> Ended:
    """Measure what is left; everything that was measured is in the journal, however this ends.

    Raises `AutoinferError` for a device that another process holds and a folder that can't be written.
    """
    work = work_of(run)
    journal = Journal(run.journal_path, run.identity)
    failures: list[BaseException] = []
    left_for: list[str] = []
    others = frozenset(psutil.Process().children())

    def on(device: TableDevice) -> None:
        try:
            measured = DeviceRun(
                work,
                device,
                run.sources,
                journal,
                run.budget,
                run.loads_ahead,
                tell,
                loads_together=run.loads_together,
                with_profile=run.with_profile,
                gpu_watch=run.gpu_watches(device.device),
                wait=run.wait,
            )
            measured.run()
            if measured.left is not None:
                left_for.append(measured.left)
                tell(f"{measured.left}.")
        except BaseException as failure:
            failures.append(failure)
            run.budget.stop()

    with ExitStack() as leases:
        for device in run.devices:
            leases.enter_context(leased(device.device, run.sources.cache_dir))
        begun = {
            "grid": run.grid.name,
            "command": run.command,
            "loads_left": len(work),
            "loads_ahead": run.loads_ahead,
            "loads_together": run.loads_together,
            "launches": run.launches,
            "budget_s": run.budget.wall_s,
        }
        journal.add("begin", begun, run.devices[0].identity())
        threads = [threading.Thread(target=on, args=(device,), name=device.device) for device in run.devices]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            stopped = run.budget.is_stopped
            run.budget.stop()
            end_children(but=others)
    if failures:
        raise failures[0]
    left = work_of(run)
    why = "it was told to end" if stopped else "; ".join(left_for) or "the budget is over"
    ended = Ended(len(left), why if len(left) else "everything is measured")
    journal.add("end", {"loads_left": ended.loads_left, "reason": ended.reason}, run.devices[0].identity())
    return ended


def end_children(but: Collection[psutil.Process]) -> None:
    """Kill the processes that this one has started, with all of theirs: launches that were still coming up.
    Those that it had before (`but`) stay."""
    started = [child for child in psutil.Process().children() if child not in but]
    children = [each for child in started for each in (child, *_descendants(child))]
    for child in children:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(children, timeout=10.0)


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []

"""What a table of trained weights rests on: its grid, device, checkpoint and texts, and where all goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil

from agent.tables.clock import Budget
from agent.tables.device import TableDevice
from agent.tables.grid import Grid, PlannedLoad, Quality, SideBySide
from agent.tables.journal import Journal
from experiments.engines.port import Engine, Launch
from experiments.job.context import Material
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration

JOURNAL_FILE = "measured.jsonl"
ARTIFACTS, CACHE, LOGS, DISTRIBUTIONS = "artifacts", "cache", "logs", "distributions"
"""Files and folders in the folder of a table: its journal, the checkpoints that were built, compiled code,
the launches' logs, and the first load's distributions over tokens, which all others are compared with."""


@dataclass(frozen=True)
class Ground:
    """A grid of an engine that serves trained weights, and where it is prepared and measured; `leases` is the
    folder with the devices' locks."""

    grid: Grid
    device: TableDevice
    engine: Engine
    checkpoint: Path
    material: Material
    folder: Path
    leases: Path
    load_limit_s: float
    budget: Budget
    identity: Mapping[str, Any]
    command: str = ""

    @property
    def journal_path(self) -> Path:
        """Where measurements go."""
        return self.folder / JOURNAL_FILE

    @property
    def turns(self) -> SideBySide:
        """How launches are timed."""
        assert self.grid.side_by_side is not None  # the grid's file was checked
        return self.grid.side_by_side

    @property
    def quality(self) -> Quality:
        """What quality is evaluated on."""
        assert self.grid.quality is not None
        return self.grid.quality

    @cached_property
    def workload(self) -> Workload:
        """What a turn asks of a launch, and what quality is evaluated on."""
        cell = self.grid.workloads[0]
        return Workload(
            prompt_tokens=cell.prompt_tokens,
            new_tokens=cell.new_tokens,
            prompts_per_block=self.turns.prompts_a_turn,
            evaluation_documents=self.quality.documents,
            evaluation_tokens_per_document=self.quality.tokens_per_document,
            evaluation_items=self.quality.items,
            drafting_prompts=self.quality.drafting_prompts,
            drafting_new_tokens=self.quality.drafting_new_tokens,
        )

    def journal(self) -> Journal:
        """The journal, to be added to."""
        return Journal(self.journal_path, {**self.identity, **self.device.identity()})

    def launch(self, configuration: Configuration, checkpoint: Path, name: str) -> Launch:
        """A fresh process that serves a checkpoint; its log is called `name`. Raises `Infeasible`."""
        logs = self.folder / LOGS
        logs.mkdir(parents=True, exist_ok=True)
        return self.engine.launch(
            configuration,
            checkpoint,
            self.device.device,
            logs / f"{name}.log",
            self.folder / CACHE,
            self.load_limit_s,
        )


def load_fields(grid: Grid, load: PlannedLoad) -> dict[str, Any]:
    """What a journal's line tells of a load."""
    return {
        "grid": grid.name,
        "model": grid.model,
        "weights": grid.weights,
        "latency_only": False,
        "load": grid.digest(load),
        "number": grid.loads.index(load),
        "configuration": dict(load.configuration),
        "stored_as": load.stored,
    }


def launch_processor_s(launch: Launch) -> float | None:
    """Seconds of all cores that a launch's process and those that it has waited for have taken; None for an
    engine that does not tell its process."""
    pid = getattr(launch, "pid", None)
    if pid is None:
        return None
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)

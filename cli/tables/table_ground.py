"""What `autoinfer table prepare` and `measure` stand on for a grid of the reference engine."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from types import FrameType

    from agent.tables.clock import Budget
    from agent.tables.grid import Grid
    from agent.tables.ground import Ground
    from experiments.job.context import CheckpointStage

SAME_SIGNAL_S = 1.0
"""Seconds within which a second signal is taken for the first."""


def ground_of(
    ctx: typer.Context, grid: Grid, target: str, out: Path, budget: Budget, commit: str | None
) -> Ground:
    """The ground of a grid: raises `AutoinferError` for a device or a checkpoint that is not there."""
    from agent.tables.device import find_device
    from agent.tables.ground import Ground
    from cli.console.opening import settings_of
    from experiments.job.assembly import checkpoint_path
    from experiments.job.named import engine_for, load_engine
    from experiments.measurement.material import HeldOutMaterial

    settings = settings_of(ctx)
    device = find_device(target, grid.engine)
    checkpoint = checkpoint_path(grid.model)
    return Ground(
        grid=grid,
        device=device,
        engine=engine_for(load_engine(grid.engine), 1),
        checkpoint=checkpoint,
        material=HeldOutMaterial(checkpoint, device.device, grid.seed),
        folder=out.absolute(),
        leases=settings.cache_dir,
        load_limit_s=settings.load_limit_s,
        budget=budget,
        identity=identity_of(commit),
        command=command_line(),
    )


def stages_of(ground: Ground) -> tuple[CheckpointStage, ...]:
    """What changes checkpoints; scores of layers and unfinished layers are kept in the table's folder."""
    from agent.tables.ground import CACHE
    from experiments.job.assembly import KEPT_SCORES, UNFINISHED_QUANTIZATIONS
    from experiments.stages.pruning.stage import DepthPruning
    from experiments.stages.quantize.stage import WeightQuantization

    cache, device = ground.folder / CACHE, ground.device.device
    return (
        DepthPruning(device, cache / KEPT_SCORES),
        WeightQuantization(device, cache / UNFINISHED_QUANTIZATIONS),
    )


def identity_of(commit: str | None) -> dict[str, Any]:
    """What each line of a journal tells of the code; `commit` where git can't tell it."""
    from experiments.measurement.environment import git_revision, package_version

    revision, changed = git_revision(Path(__file__).parents[2])
    return {
        "autoinfer": package_version("autoinfer"),
        "git_revision": commit or revision,
        "git_changed": None if commit else changed,
    }


def command_line() -> str:
    """The command as it was given."""
    return shlex.join(["autoinfer", *sys.argv[1:]])


def end_on_signals(budget: Budget) -> None:
    """End after what is under way; a second signal ends at once, if it is not the first one twice, as
    `timeout` sends it to a process and to its group."""
    first_s: list[float] = []

    def end(number: int, frame: FrameType | None) -> None:
        if first_s and time.monotonic() - first_s[0] > SAME_SIGNAL_S:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        first_s.append(time.monotonic())
        budget.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)

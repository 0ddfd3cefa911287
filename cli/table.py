"""`autoinfer table`: measure every configuration of a grid, and export what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Json
from cli.tables.table_options import Commit, GridName, Model, Out, TableBudget, WayOfAsking, Weights
from cli.tables.table_prepare import prepare
from cli.tables.table_shape import shape_of
from cli.tables.table_written import archive, export, page, same

if TYPE_CHECKING:
    from agent.tables.clock import Budget
    from agent.tables.grid import Grid
    from agent.tables.run import Ended, TableRun

app = typer.Typer(
    rich_markup_mode=None, add_completion=False, help="Measure every configuration of a grid, and export it."
)


@app.callback()
def table() -> None:
    """Measure every configuration of a grid, and export it."""


app.command()(prepare)


@app.command()
def measure(
    ctx: typer.Context,
    grid: GridName,
    out: Out,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="DEVICE[,DEVICE]",
            help="Where to measure: cuda:0, cuda:0,cuda:1 …; cpu for a grid of the reference engine.",
        ),
    ] = None,
    model: Model = None,
    weights: Weights = None,
    budget: TableBudget = None,
    loads_ahead: Annotated[
        int,
        typer.Option("--loads-ahead", min=0, max=8, help="Loads that come up on a device while it measures."),
    ] = 0,
    loads_together: Annotated[
        int,
        typer.Option(
            "--loads-together",
            min=1,
            max=8,
            help="Loads that come up on a device at once, and are measured in turn when all are up.",
        ),
    ] = 1,
    launches: Annotated[
        int,
        typer.Option(
            "--launches",
            min=1,
            max=16,
            help="Launches of each load that serve a cell, each a fresh process; all loads once, then again.",
        ),
    ] = 1,
    same: Annotated[
        bool,
        typer.Option("--same/--no-same", help="Measure the grid's `same` cells beside another load too."),
    ] = True,
    profile: Annotated[
        bool,
        typer.Option("--profile", help="Keep a step's time by part of each load, after its cells."),
    ] = False,
    asked_over: WayOfAsking = None,
    commit: Commit = None,
    as_json: Json = False,
) -> None:
    """Measure what of a grid is not in the table yet: each configuration loaded once, all workloads on it.

    It may be killed at any time: what was measured is in DIR/measured.jsonl, and the same command goes on.
    """
    from dataclasses import replace

    from agent.tables.clock import Budget
    from agent.tables.grid import REFERENCE
    from agent.tables.run import measure as measure_table
    from agent.tables.side_by_side import SideBySideRun
    from cli.console.output import say
    from cli.tables.table_ground import end_on_signals, ground_of
    from configs.asked_over import IN_ENGINE
    from configs.errors import UsageError
    from configs.quantities import parse_duration_s
    from configs.targets import CPU

    clock = Budget(None if budget is None else parse_duration_s(budget))
    found = _grid(grid, model, weights)
    tell = (lambda text: None) if as_json else (lambda text: say(text))
    if found.engine == REFERENCE:
        if loads_ahead or loads_together > 1 or launches > 1 or not same or profile:
            raise UsageError(
                f"The grid {found.name} is measured side by side, with nothing loading meanwhile, and tells "
                "its own launches.",
                "Leave out --loads-ahead, --loads-together, --launches, --no-same and --profile.",
            )
        if asked_over not in (None, IN_ENGINE):
            raise UsageError(
                f"The grid {found.name} is of the engine {found.engine}, which has no HTTP server.",
                "Leave out --asked-over.",
            )
        ground = ground_of(ctx, found, target or CPU, out, clock, commit)
        end_on_signals(clock)
        _say_ended(SideBySideRun(ground, tell).run(), ground.journal_path, as_json=as_json)
        return
    if loads_ahead and loads_together > 1:
        raise UsageError(
            "With --loads-ahead loads come up while one is measured, with --loads-together while none is.",
            "Leave out one of the two.",
        )
    found = found if same else replace(found, same=None)
    devices = target or "cuda:0"
    run = replace(
        _run(ctx, found, devices, out, clock, loads_ahead, commit, asked_over),
        loads_together=loads_together,
        launches=launches,
        with_profile=profile,
    )
    if not as_json:
        say(*_header(run))
    end_on_signals(clock)
    _say_ended(measure_table(run, tell), run.journal_path, as_json=as_json)


@app.command("list")
def list_(
    grid: GridName,
    model: Model = None,
    weights: Weights = None,
    as_json: Json = False,
) -> None:
    """List a grid's loads in the order of measuring, and its workloads; nothing is measured."""
    from agent.tables.load_words import told
    from cli.console.output import print_json, say
    from knowledge.figures import counted

    found = _grid(grid, model, weights)
    loads = [
        {
            "load": found.digest(load),
            "differs": told(found, load),
            "stored_as": load.stored,
            "configuration": dict(load.configuration),
        }
        for load in found.loads
    ]
    workloads = [each.key for each in found.workloads]
    if as_json:
        document = {"grid": found.name, "model": found.model, "weights": found.weights}
        print_json({**document, "workloads": workloads, "items": loads})
        return
    said = f"{counted(len(loads), 'load')} of {found.model}, weights {found.weights}"
    say(f"{said}; workloads: {', '.join(workloads)}")
    for number, load in enumerate(loads):
        say(f"{number:>3}  {load['load']}  {load['differs']}")


def _grid(name: str, model: str | None, weights: str | None) -> Grid:
    from agent.tables.grid import CHECKPOINT, DUMMY, load_grid
    from configs.errors import UsageError

    if weights not in (None, DUMMY, CHECKPOINT):
        raise UsageError(f"There are no weights {weights!r}.", f"Write {DUMMY} or {CHECKPOINT}.")
    return load_grid(name, model, weights)


def _run(
    ctx: typer.Context,
    grid: Grid,
    target: str,
    out: Path,
    budget: Budget,
    loads_ahead: int,
    commit: str | None,
    asked_over: str | None,
) -> TableRun:
    from functools import partial

    from agent.tables.device import find_device
    from agent.tables.grid import DUMMY
    from agent.tables.loading import Sources, served_alone
    from agent.tables.run import TableRun
    from cli.console.opening import settings_of
    from cli.tables.table_ground import command_line, identity_of
    from configs.asked_over import HTTP, IN_ENGINE, asked_over_for
    from configs.errors import UsageError
    from experiments.checkpoints.tokenizer_file import SAVE_TOKENIZER, TOKENIZER_FILE, no_tokenizer

    settings = settings_of(ctx)
    names = [each.strip() for each in target.split(",") if each.strip()]
    if len(set(names)) < len(names) or not names:
        raise UsageError(f"--target {target} names no device, or one twice.", "Write cuda:0,cuda:1.")
    if asked_over not in (None, HTTP, IN_ENGINE):
        raise UsageError(f"vLLM can't be asked over {asked_over!r}.", f"Write {HTTP} or {IN_ENGINE}.")
    way = asked_over or asked_over_for(grid.engine)
    devices = [find_device(each, grid.engine, way) for each in names]
    checkpoint = None
    if grid.weights != DUMMY:
        checkpoint = Path(grid.model).expanduser()
        if not checkpoint.is_dir():
            raise UsageError(
                f"There is no folder {checkpoint} with weights.",
                f"Name one with --model, or measure times alone with --weights {DUMMY}.",
            )
        if way == HTTP and not (checkpoint / TOKENIZER_FILE).is_file():
            raise UsageError(
                no_tokenizer(checkpoint),
                f"{SAVE_TOKENIZER}, or measure in the engine's process: --asked-over {IN_ENGINE}.",
            )
    sources = Sources(
        shape_of(grid.model, weights=grid.weights != DUMMY),
        out.absolute(),
        settings.cache_dir,
        settings.load_limit_s,
        checkpoint,
        partial(served_alone, devices[0].asked_over),
    )
    return TableRun(grid, devices, sources, budget, loads_ahead, identity_of(commit), command_line())


def _header(run: TableRun) -> list[str]:
    from agent.tables.grid import DUMMY, VLLM
    from agent.tables.run import work_of
    from configs.asked_over import asked_over_words
    from experiments.job.named import newer_told
    from experiments.shapes.folder import LATENCY_ONLY
    from knowledge.figures import counted

    where = ", ".join(f"{each.device} ({each.name}, vLLM {each.engine_version})" for each in run.devices)
    loads, left = len(run.grid.loads), len(work_of(run))
    times = "" if run.launches == 1 else f", {run.launches} launches of each"
    asked = asked_over_words(run.devices[0].asked_over)
    newer = newer_told(VLLM, run.devices[0].device)
    lines = [
        f"{run.grid.name}: to be measured on {where}, {left} of {counted(loads, 'load')} of "
        f"{run.grid.model}{times}.",
        f"Requests are asked {asked}.",
        f"Measurements go to {run.journal_path}.",
        *(() if newer is None else (newer,)),
    ]
    return [*lines, f"This is {LATENCY_ONLY}."] if run.grid.weights == DUMMY else lines


def _say_ended(ended: Ended, journal: Path, *, as_json: bool) -> None:
    from cli.console.output import print_json, say
    from knowledge.figures import counted

    if as_json:
        print_json({"loads_left": ended.loads_left, "reason": ended.reason, "journal": str(journal)})
        return
    say(f"{counted(ended.loads_left, 'load')} left: {ended.reason}.")


for _command in (export, archive, page, same):
    app.command()(_command)

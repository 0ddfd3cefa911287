"""`autoinfer table prepare`: all of a table that needs no quiet machine."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.console.options import Json
from cli.tables.table_options import Commit, GridName, Out, TableBudget


def prepare(
    ctx: typer.Context,
    grid: GridName,
    out: Out,
    target: Annotated[
        str, typer.Option("--target", metavar="DEVICE", help="Where it will be measured.")
    ] = "cpu",
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME|DIR", help="Another checkpoint than the grid's: a folder."),
    ] = None,
    budget: TableBudget = None,
    backwards: Annotated[
        bool,
        typer.Option(
            "--backwards", help="Begin with the last load, beside a call that begins with the first."
        ),
    ] = False,
    commit: Commit = None,
    as_json: Json = False,
) -> None:
    """Build the checkpoints of a grid of the reference engine, evaluate their quality, compile their steps.

    Nothing is timed, so other work may go on beside it. It may be killed at any time; the same command goes
    on.
    """
    from agent.tables.clock import Budget
    from agent.tables.grid import REFERENCE, load_grid
    from agent.tables.preparing import Preparing
    from cli.console.output import print_json, say
    from cli.tables.table_ground import end_on_signals, ground_of, stages_of
    from configs.errors import UsageError
    from configs.quantities import parse_duration_s
    from knowledge.figures import counted

    found = load_grid(grid, model)
    if found.engine != REFERENCE:
        raise UsageError(
            f"The grid {found.name} is of the engine {found.engine}, which needs no preparing.",
            f"Measure it: autoinfer table measure {grid} --out DIR",
        )
    clock = Budget(None if budget is None else parse_duration_s(budget))
    ground = ground_of(ctx, found, target, out, clock, commit)
    end_on_signals(clock)
    tell = (lambda text: None) if as_json else (lambda text: say(text))
    left = Preparing(ground, stages_of(ground), tell).run(backwards=backwards)
    if as_json:
        print_json({"loads": len(found.loads), "loads_left": left, "journal": str(ground.journal_path)})
        return
    say(f"{left} of {counted(len(found.loads), 'load')} left to prepare.")

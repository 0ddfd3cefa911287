"""`autoinfer replay`: planners against a table of measured configurations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Json

if TYPE_CHECKING:
    from agent.replay.replay import Replayed


def replay(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="A CSV of measured configurations.", show_default=False)
    ],
    planner: Annotated[
        list[str] | None,
        typer.Option("--planner", metavar="NAME", help="A planner; may be given again. All if not given."),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, max=1000, help="Seeds, from 0 on.")
    ] = 50,
    budget: Annotated[
        str,
        typer.Option("--budget", metavar="TRIALS|TIME", help="Trials after trial 0, or time such as 2h."),
    ] = "20",
    metric: Annotated[
        str | None,
        typer.Option("--metric", metavar="NAME", help="The latency; tpot_ms where the table has it."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="COLUMN=VALUE", help="Only these lines; may be given again."),
    ] = None,
    space: Annotated[
        str | None,
        typer.Option("--space", metavar="NAME|FILE", help="The space; one that suits if not given."),
    ] = None,
    quality_limit: Annotated[
        str,
        typer.Option("--quality-limit", metavar="SHARE", help="How much worse than trial 0 is allowed."),
    ] = "1%",
    permute: Annotated[
        list[str] | None,
        typer.Option("--permute", metavar="KNOB", help="Turn the labels of this knob round in every seed."),
    ] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw the regret into this file.")
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", metavar="N", min=1, max=64, help="Processes that replay.")
    ] = 1,
    as_json: Json = False,
) -> None:
    """Replay a table of measured configurations: which planner finds the best in how many trials, at what
    cost.

    All begin with trial 0, the table's first line, and are told what was drawn of the measured samples. They
    are judged by what is true of the table. docs/replay.md says what a table holds, and how to enter a
    planner.
    """
    from agent.replay.course import Budget
    from agent.replay.made_with import made_with
    from agent.replay.read import Asked as Chosen
    from agent.replay.read import read_table
    from agent.replay.replay import Asked, workers
    from agent.replay.replay import replay as replayed_of
    from agent.replay.report import document
    from cli.console.output import print_json
    from configs.quantities import parse_percent

    chosen = Chosen(metric, _conditions(where or []), space, parse_percent(quality_limit))
    planners, turned = (tuple(dict.fromkeys(given or [])) for given in (planner, permute))
    asked = Asked(planners, seeds, Budget.parse(budget), turned)
    measured = read_table(table, chosen)
    if svg is not None:
        _check_drawable(svg)
    with workers(processes) as pool:
        found = replayed_of(measured, asked, pool)
    if svg is not None:
        _draw(found, svg)
    if as_json:
        print_json(document(found, made_with()))
    else:
        _say(found)
    if svg is not None and not as_json:
        from cli.console.output import say

        say("", f"The regret is drawn in {svg}.")


def _conditions(given: list[str]) -> dict[str, str]:
    from configs.errors import UsageError

    found: dict[str, str] = {}
    for text in given:
        column, equals, value = text.partition("=")
        if not equals or not column.strip():
            raise UsageError(
                f"{text!r} is no condition.", "Write COLUMN=VALUE, such as --where concurrency=1."
            )
        if column.strip() in found:
            raise UsageError(f"--where names {column.strip()} twice.", "Name each column once.")
        found[column.strip()] = value.strip()
    return found


def _check_drawable(path: Path) -> None:
    """Raise `UsageError` for a picture that can't be written, before minutes of replaying."""
    from configs.errors import UsageError

    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else f"can't be written: there is no folder {path.parent}"
        raise UsageError(f"{path} {what}.", "Name a file in a folder that is there with --svg.")


def _draw(found: Replayed, path: Path) -> None:
    from agent.replay.regret_svg import regret_svg
    from cli.console.output_file import write_output
    from knowledge.figures import counted

    title = f"{found.table.name}: share of the best gain that is still missing"
    subtitle = (
        f"mean of {counted(found.asked.seeds, 'seed')}, {counted(len(found.table.rows), 'configuration')}, "
        f"{found.table.metric}"
    )
    write_output(path, regret_svg(found.scores, title, subtitle))


def _say(found: Replayed) -> None:
    from agent.replay.calibration import calibration
    from agent.replay.made_with import made_with
    from agent.replay.report import (
        CALIBRATION,
        COLUMNS,
        calibration_row,
        difference_columns,
        difference_rows,
        regret_columns,
        regret_rows,
        rows,
    )
    from cli.console.output import console, say
    from cli.console.output import table as laid_out
    from knowledge.figures import counted

    table, asked = found.table, found.asked
    say(
        f"{table.name}: {counted(len(table.rows), 'configuration')}, "
        f"{table.metric} {table.baseline_ms:g} at trial 0, "
        f"{table.best_ms:g} at best; {counted(asked.seeds, 'seed')}, {asked.budget.words}",
        f"Made with {made_with().words}",
        *table.left_out,
        *(f"Not run: {name}. {why}" for name, why in found.missing.items()),
    )
    if asked.permute:
        say(f"In every seed the labels of {', '.join(asked.permute)} are turned round.")
    scores = found.scores
    console().print()
    console().print(laid_out(COLUMNS, rows(scores, found.missing)))
    say("", "Mean regret, % of the best gain that is still missing:")
    console().print(laid_out(regret_columns(scores), regret_rows(scores)))
    compared = difference_rows(scores)
    if compared:
        say("", "Regret less that of random, % of the best gain, mean and 95 % interval (below 0 is better):")
        console().print(laid_out(difference_columns(scores), compared))
    held = {score.planner: calibration(found.outcomes(score.planner)) for score in scores}
    predicted = [calibration_row(name, each) for name, each in held.items() if each is not None]
    if predicted:
        say("", "Predictions, each made before its trial, of the log of milliseconds (docs/replay.md):")
        console().print(laid_out(CALIBRATION, predicted))

"""What a table that was measured becomes: CSV, one journal, a page; and what a load beside did to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Json
from cli.tables.table_options import Bandwidth, Table
from cli.tables.table_shape import shape_of

if TYPE_CHECKING:
    from agent.tables.export import Exported
    from agent.tables.journal import Line


def export(
    table: Table,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="The CSV; printed if not given.")
    ] = None,
    bandwidth: Bandwidth = None,
    as_json: Json = False,
) -> None:
    """Export a table as CSV: a row for each configuration and workload, failures with their causes."""
    from agent.tables.journal import read_journal
    from cli.console.output import print_json, say
    from cli.console.output_file import write_output
    from knowledge.figures import counted

    lines = list(read_journal(_journal(table)))
    made = _exported(lines, bandwidth)
    if as_json:
        print_json({"columns": list(made.columns), "items": [dict(row) for row in made.rows]})
    elif to is None:
        print(made.csv(), end="")
    if to is not None:
        write_output(to, made.csv(), makes_folder=True)
        if not as_json:
            say(f"Wrote {counted(len(made.rows), 'row')} to {to}.")


def archive(
    tables: Annotated[
        list[Path],
        typer.Argument(metavar="TABLE...", help="Folders of tables, or journals, of one grid."),
    ],
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The journal that is written anew.")],
    gaps_up_to: Annotated[
        int,
        typer.Option(
            "--gaps-up-to",
            metavar="CONCURRENCY",
            min=0,
            help="Keep the gaps between tokens up to here; above, only what TPOT and the others need.",
        ),
    ] = 4,
    as_json: Json = False,
) -> None:
    """Make one journal of several, such as those of several machines, small enough to keep."""
    import json

    from agent.tables.archive import archived
    from agent.tables.journal import read_journal
    from cli.console.output import print_json, say
    from cli.console.output_file import write_output
    from knowledge.figures import counted

    journals = [list(read_journal(_journal(table))) for table in tables]
    text = "".join(
        json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n"
        for line in archived(journals, gaps_up_to)
    )
    fresh = to.with_name(f".{to.name}.new")
    write_output(fresh, text, makes_folder=True)
    fresh.replace(to)
    lines = text.count("\n")
    if as_json:
        print_json({"lines": lines, "bytes": len(text.encode()), "journal": str(to)})
        return
    say(f"Wrote {counted(lines, 'line')}, {len(text.encode()) / 1e6:.1f} MB, to {to}.")


def page(
    table: Table,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="The page's heading.")],
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="The page; printed if not given.")
    ] = None,
    bandwidth: Bandwidth = None,
    as_json: Json = False,
) -> None:
    """Write a table as a page in Markdown: times, parts of a step, failures, what a load beside does."""
    from agent.tables.journal import read_journal
    from agent.tables.page import page as page_of
    from agent.tables.prepared import READY
    from agent.tables.trained_page import trained_page
    from cli.console.output import print_json, say
    from cli.console.output_file import write_output

    lines = list(read_journal(_journal(table)))
    commands = dict.fromkeys(line["command"] for line in lines if line["kind"] == "begin")
    trained = any(line["kind"] == READY for line in lines)
    made = (trained_page if trained else page_of)(lines, _exported(lines, bandwidth), title, list(commands))
    if to is not None:
        write_output(to, made, makes_folder=True)
    if as_json:
        print_json({"page": made, "file": None if to is None else str(to)})
    elif to is None:
        print(made, end="")
    else:
        say(f"The page is {to}.")


def same(table: Table, as_json: Json = False) -> None:
    """Show what a load beside a measurement does to it: the same cells alone, beside a load, and after it."""
    from dataclasses import asdict

    from agent.tables.journal import read_journal
    from agent.tables.measure import ALONE
    from agent.tables.same import same_rows
    from cli.console.output import console, print_json, say
    from cli.console.output import table as table_of

    found = same_rows(read_journal(_journal(table)))
    alone = {(row.launch, row.workload): row for row in found if row.beside == ALONE}
    if as_json:
        items = [
            {**asdict(row), "tpot_over_alone": row.against(alone.get((row.launch, row.workload)))}
            for row in found
        ]
        print_json({"items": items})
        return
    if not found:
        say(
            "Nothing was measured beside a load: the grid has no `same`, or `table measure` was not given "
            "--loads-ahead, or given --no-same."
        )
        return
    rows = [
        (
            row.load,
            row.workload,
            row.beside if row.held else f"{row.beside}, not all the time",
            str(len(row.tpot_ms)),
            ", ".join(f"{each:.3f}" for each in row.tpot_ms),
            f"{row.against(alone.get((row.launch, row.workload))):.4f}",
        )
        for row in found
    ]
    columns = ("load", "workload", "meanwhile", "n", "TPOT ms of each", "over alone")
    console().print(table_of(columns, rows, wide=("TPOT ms of each",)))


def _exported(lines: list[Line], bandwidth_bytes_per_s: float | None) -> Exported:
    """The table of a journal's lines, floors by the given bandwidth or the one that the vendor lists."""
    from agent.tables.export import export as export_table
    from agent.tables.floor import listed_bandwidth
    from agent.tables.grid import DUMMY

    speed = listed_bandwidth(lines) if bandwidth_bytes_per_s is None else bandwidth_bytes_per_s
    models = {(line["model"], line["weights"]) for line in lines if "model" in line}
    if len(models) != 1:
        return export_table(lines, None, speed)
    ((model, weights),) = models
    return export_table(lines, shape_of(model, weights=weights != DUMMY), speed)


def _journal(table: Path) -> Path:
    from agent.tables.ground import JOURNAL_FILE
    from configs.errors import UsageError

    path = table / JOURNAL_FILE if table.is_dir() else table
    if not path.is_file():
        raise UsageError(
            f"There is no table at {table}.", "Name the folder that --out named: autoinfer table measure"
        )
    return path

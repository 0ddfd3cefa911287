"""`autoinfer table`: measure every configuration of a grid, and export what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import Json
from cli.table_prepare import prepare

if TYPE_CHECKING:
    from agent.tables.clock import Budget
    from agent.tables.export import Exported
    from agent.tables.grid import Grid
    from agent.tables.journal import Line
    from agent.tables.run import Ended, TableRun
    from configs.models import ModelProfile

app = typer.Typer(
    rich_markup_mode=None, add_completion=False, help="Measure every configuration of a grid, and export it."
)

GridName = Annotated[str, typer.Argument(metavar="GRID", help="A packaged name or a YAML file.")]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|DIR|HF_ID",
        help="Another model than the grid's: a packaged shape, a folder, or a model of the hub.",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="dummy|checkpoint",
        help="Made-up weights, which give times alone, or those of the folder; the grid's if not given.",
    ),
]
Table = Annotated[
    Path, typer.Argument(metavar="TABLE", help="The folder of a table, or its journal (.jsonl, .jsonl.gz).")
]

Bandwidth = Annotated[
    float | None,
    typer.Option(
        "--bandwidth",
        metavar="BYTES_PER_S",
        min=1e9,
        help="The memory's bandwidth for floors; what the vendor lists if not given.",
    ),
]


@app.callback()
def table() -> None:
    """Measure every configuration of a grid, and export it."""


app.command()(prepare)


@app.command()
def measure(
    ctx: typer.Context,
    grid: GridName,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="The table's folder; one that is there is gone on with."),
    ],
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
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="TIME", help="Wall-clock time, such as 18m; no end if not given."),
    ] = None,
    loads_ahead: Annotated[
        int,
        typer.Option("--loads-ahead", min=0, max=8, help="Loads that come up on a device while it measures."),
    ] = 1,
    same: Annotated[
        bool,
        typer.Option("--same/--no-same", help="Measure the grid's `same` cells beside another load too."),
    ] = True,
    profile: Annotated[
        bool,
        typer.Option("--profile", help="Keep a step's time by part of each load, after its cells."),
    ] = False,
    commit: Annotated[
        str | None,
        typer.Option("--commit", metavar="HASH", help="The code's commit, where git can't tell it."),
    ] = None,
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
    from cli.output import say
    from cli.table_ground import end_on_signals, ground_of
    from configs.errors import UsageError
    from configs.quantities import parse_duration_s
    from configs.targets import CPU

    clock = Budget(None if budget is None else parse_duration_s(budget))
    found = _grid(grid, model, weights)
    tell = (lambda text: None) if as_json else (lambda text: say(text))
    if found.engine == REFERENCE:
        if loads_ahead != 1 or not same or profile:
            raise UsageError(
                f"The grid {found.name} is measured side by side, with nothing loading meanwhile.",
                "Leave out --loads-ahead, --no-same and --profile.",
            )
        ground = ground_of(ctx, found, target or CPU, out, clock, commit)
        end_on_signals(clock)
        _say_ended(SideBySideRun(ground, tell).run(), ground.journal_path, as_json=as_json)
        return
    found = found if same else replace(found, same=None)
    devices = target or "cuda:0"
    run = replace(_run(ctx, found, devices, out, clock, loads_ahead, commit), with_profile=profile)
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
    from agent.tables.measure import told
    from cli.output import print_json, say

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
    say(f"{len(loads)} loads of {found.model}, weights {found.weights}; workloads: {', '.join(workloads)}")
    for number, load in enumerate(loads):
        say(f"{number:>3}  {load['load']}  {load['differs']}")


@app.command()
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
    from cli.output import print_json, say

    lines = list(read_journal(_journal(table)))
    made = _exported(lines, bandwidth)
    if as_json:
        print_json({"columns": list(made.columns), "items": [dict(row) for row in made.rows]})
    elif to is None:
        print(made.csv(), end="")
    if to is not None:
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(made.csv(), encoding="utf-8")
        if not as_json:
            say(f"{len(made.rows)} rows are in {to}.")


@app.command()
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
    from cli.output import print_json, say

    journals = [list(read_journal(_journal(table))) for table in tables]
    text = "".join(
        json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n"
        for line in archived(journals, gaps_up_to)
    )
    to.parent.mkdir(parents=True, exist_ok=True)
    fresh = to.with_name(f".{to.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(to)
    lines = text.count("\n")
    if as_json:
        print_json({"lines": lines, "bytes": len(text.encode()), "journal": str(to)})
        return
    say(f"{lines} lines, {len(text.encode()) / 1e6:.1f} MB, are in {to}.")


@app.command()
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
    from cli.output import print_json, say

    lines = list(read_journal(_journal(table)))
    commands = dict.fromkeys(line["command"] for line in lines if line["kind"] == "begin")
    trained = any(line["kind"] == READY for line in lines)
    made = (trained_page if trained else page_of)(lines, _exported(lines, bandwidth), title, list(commands))
    if to is not None:
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(made, encoding="utf-8")
    if as_json:
        print_json({"page": made, "file": None if to is None else str(to)})
    elif to is None:
        print(made, end="")
    else:
        say(f"The page is {to}.")


@app.command()
def same(table: Table, as_json: Json = False) -> None:
    """Show what a load beside a measurement does to it: the same cells alone, beside a load, and after it."""
    from dataclasses import asdict

    from agent.tables.journal import read_journal
    from agent.tables.measure import ALONE
    from agent.tables.same import same_rows
    from cli.output import console, print_json, say
    from cli.output import table as table_of

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
        say("Nothing was measured beside a load: the grid has no `same`, or --no-same was given.")
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
    from configs.hardware import profile_of_device

    names = {line["identity"].get("name") for line in lines}
    listed = profile_of_device(str(names.pop())) if len(names) == 1 else None
    speed = (
        bandwidth_bytes_per_s
        if bandwidth_bytes_per_s is not None or listed is None
        else listed.bandwidth_bytes_per_s
    )
    models = {line["model"] for line in lines if "model" in line}
    return export_table(lines, _profile(models.pop()) if len(models) == 1 else None, speed)


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
) -> TableRun:
    from agent.tables.device import find_device
    from agent.tables.grid import DUMMY
    from agent.tables.loading import Sources
    from agent.tables.run import TableRun
    from cli.opening import settings_of
    from cli.table_ground import command_line, identity_of
    from configs.errors import UsageError

    settings = settings_of(ctx)
    names = [each.strip() for each in target.split(",") if each.strip()]
    if len(set(names)) < len(names) or not names:
        raise UsageError(f"--target {target} names no device, or one twice.", "Write cuda:0,cuda:1.")
    devices = [find_device(each) for each in names]
    checkpoint = None
    if grid.weights != DUMMY:
        checkpoint = Path(grid.model).expanduser()
        if not checkpoint.is_dir():
            raise UsageError(
                f"There is no folder {checkpoint} with weights.",
                f"Name one with --model, or measure times alone with --weights {DUMMY}.",
            )
    sources = Sources(
        _profile(grid.model), out.absolute(), settings.cache_dir, settings.load_limit_s, checkpoint
    )
    return TableRun(grid, devices, sources, budget, loads_ahead, identity_of(commit), command_line())


def _profile(model: str) -> ModelProfile:
    """The shape of a packaged name, a profile's file, a folder or a model of the hub."""
    from configs.catalog import Kind, packaged_names
    from configs.models import load_model_profile

    if model in packaged_names(Kind.MODELS) or model.endswith((".yaml", ".yml")):
        return load_model_profile(model)
    if Path(model).expanduser().is_dir():
        from experiments.engines.reference.shape import read_profile

        return read_profile(Path(model).expanduser())
    from agent.plan.model import find_model

    return find_model(model).profile


def _header(run: TableRun) -> list[str]:
    from agent.tables.grid import DUMMY
    from agent.tables.run import work_of
    from experiments.shapes.folder import LATENCY_ONLY

    where = ", ".join(f"{each.device} ({each.name}, vLLM {each.engine_version})" for each in run.devices)
    loads, left = len(run.grid.loads), len(work_of(run))
    lines = [
        f"{run.grid.name}: {left} of {loads} loads of {run.grid.model} are to be measured on {where}.",
        f"Measurements go to {run.journal_path}.",
    ]
    return [*lines, f"This is {LATENCY_ONLY}."] if run.grid.weights == DUMMY else lines


def _say_ended(ended: Ended, journal: Path, *, as_json: bool) -> None:
    from cli.output import print_json, say

    if as_json:
        print_json({"loads_left": ended.loads_left, "reason": ended.reason, "journal": str(journal)})
        return
    say(f"{ended.loads_left} loads are left: {ended.reason}.")


def _journal(table: Path) -> Path:
    from agent.tables.ground import JOURNAL_FILE
    from configs.errors import UsageError

    path = table / JOURNAL_FILE if table.is_dir() else table
    if not path.is_file():
        raise UsageError(
            f"There is no table at {table}.", "Name the folder that --out named: autoinfer table measure"
        )
    return path

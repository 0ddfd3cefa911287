"""Options that several commands of `autoinfer table` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
Out = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", help="The table's folder; one that is there is gone on with."),
]
WayOfAsking = Annotated[
    str | None,
    typer.Option(
        "--asked-over",
        metavar="http|engine",
        help="How vLLM is asked: over its HTTP server, as if not given, or in its own process.",
    ),
]
TableBudget = Annotated[
    str | None,
    typer.Option("--budget", metavar="TIME", help="Wall-clock time, such as 18m; no end if not given."),
]
Commit = Annotated[
    str | None,
    typer.Option("--commit", metavar="HASH", help="The code's commit, where git can't tell it."),
]

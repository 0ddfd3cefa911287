"""`autoinfer judge`: a verdict on times from a CSV, without a campaign or a database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, BinaryIO

import typer

from cli.console.options import Json

STANDARD_INPUT = "-"
"""The name of the file that means standard input."""


def judge(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A CSV of times, or - for standard input.", show_default=False),
    ],
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric", metavar="METRIC", help="What to judge, such as tpot_ms; see below if not given."
        ),
    ] = None,
    min_effect: Annotated[
        str, typer.Option("--min-effect", metavar="SHARE", help="The smallest gain worth having.")
    ] = "3%",
    alpha: Annotated[
        float, typer.Option("--alpha", metavar="NUMBER", help="The chance of error that is allowed.")
    ] = 0.05,
    noise_sd: Annotated[
        str | None,
        typer.Option(
            "--noise-sd", metavar="SHARE", help="How much launches vary here by themselves, such as 1%."
        ),
    ] = None,
    noise_dof: Annotated[
        int | None,
        typer.Option("--noise-dof", metavar="N", min=1, help="Degrees of freedom behind --noise-sd."),
    ] = None,
    validation_pairs: Annotated[
        int,
        typer.Option(
            "--validation-pairs", metavar="N", min=0, help="The last N pairs must agree by themselves."
        ),
    ] = 0,
    as_json: Json = False,
) -> None:
    """Judge times that were measured elsewhere: a table of launches of two arms.

    The columns are arm (control or candidate), launch, block, prompt, metric, value and, where a request has
    several values, seq. Quality is not looked at. Without --metric the only metric of the file is judged, or
    tpot_ms of several. docs/judge-command.md says how.
    """
    from agent.judge.from_csv.asked import Asked
    from agent.judge.from_csv.rows import read_rows
    from agent.judge.from_csv.sorting import pair_table
    from agent.judge.from_csv.verdict import SCOPE, judge_pairs
    from cli.console.output import print_json, say

    asked = Asked.of(metric, min_effect, alpha, validation_pairs, noise_sd, noise_dof)
    with opened(file) as stream:
        table = pair_table(read_rows(stream), asked.validation_pairs)
    verdict = judge_pairs(asked, *asked.choose(table))
    if as_json:
        print_json(verdict.as_json())
    else:
        say(f"{verdict.outcome.value} ({SCOPE})", "", verdict.reason)


@contextmanager
def opened(file: str) -> Iterator[BinaryIO]:
    """The bytes of a file, or of standard input, which stays open."""
    from pathlib import Path

    from configs.errors import UsageError

    if file == STANDARD_INPUT:
        if sys.stdin is None:  # the shell closed it: `<&-`
            raise UsageError("Standard input is closed.", "Give a table on it, or name a CSV file.")
        yield sys.stdin.buffer
        return
    path = Path(file)
    if path.is_dir():
        raise UsageError(f"{file} is a folder.", "Name a CSV file in it, or - for standard input.")
    if not path.exists():
        raise UsageError(f"There is no file {file}.", "Name a CSV file, or - for standard input.")
    with path.open("rb") as stream:
        yield stream

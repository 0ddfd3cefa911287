"""The lines of a table's CSV, checked: which columns are what, and each field as a value. Pure."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from agent.replay.table import Latency
from agent.tables.gpu import GPU_COLUMNS
from configs.errors import UsageError

RESOLVED = "resolved."
"""How columns of what really ran begin; they are no knobs."""

FEASIBLE, QUALITY, BASELINE, SAMPLE = "feasible", "quality", "baseline", "sample"
LOAD_S, RUN_S, CAUSE = "load_s", "run_s", "cause_kind"

TOKENS_A_STEP = "tokens_a_step"
"""The acceptance length of a line that drafts."""

BUILD, BUILD_S = "build", "build_s"
COMPILE_BUILD, COMPILE_S = "compile_build", "compile_s"
"""What is made once for all rows that name it: weights, and compiled code."""

CENTRES = ("mean", "median")
"""What may stand for the centre of a latency: `tpot_ms_mean`, or `tpot_ms_median` where that was kept."""

RESULTS = frozenset(
    {FEASIBLE, QUALITY, BASELINE, SAMPLE, LOAD_S, RUN_S, CAUSE, "cause", "run", "launches"}
    | {BUILD, BUILD_S, COMPILE_BUILD, COMPILE_S, "evaluate_s", "serve_s"}
    | {"beside_load", "tokens_per_s", "step_bytes", "floor_ms", "above_floor_ms"}
    | {"break_even_tokens_a_step", "baseline_run", TOKENS_A_STEP, "tpot_over_control"}
    | {"load", "kl_nats", "tasks_solved"}
    | {"checked_tokens", "divergences", "near_ties", *GPU_COLUMNS}
)
"""Columns of results; with those of times, all others tell what was measured on, and can be chosen by."""

TIMES = ("tpot_paced_ms", "tpot_ms", "ttft_ms", "itl_ms", "e2el_ms", "step_ms")
"""Latencies that a table may have; where none is named, the first that is there is taken. What is *paced* was
put at one pace by a control that was measured beside it."""

YES, NO = ("yes", "true", "1"), ("no", "false", "0")

SEPARATORS = str.maketrans({"|": " ", ";": " "})
"""What may stand between samples beside a space."""

OTHER_MARKS = {";": "semicolons", "\t": "tabs"}
"""What separates columns in files that are called CSV and are not."""

MOST_BYTES, MOST_LINES = 64 << 20, 100_000
"""A larger file is no table of configurations."""

MOST_NUMBER = 1e12
"""A larger number was measured by nobody."""

MOST_SAMPLES = 100_000
"""Samples behind a mean: as many are drawn whenever it is measured."""


@dataclass(frozen=True)
class Line:
    """A line of the file: its number, and its fields by column."""

    number: int
    fields: Mapping[str, str]

    def text(self, column: str) -> str:
        """The field of a column, empty where there is no such column."""
        return self.fields.get(column, "").strip()

    def number_in(self, column: str) -> float | None:
        """The number of a column; None where it is empty. Raises `UsageError` for what is none, NaN and
        infinities among it, and for what is below zero."""
        text = self.text(column)
        if not text:
            return None
        return number(text, column, self.number)

    def yes(self, column: str, otherwise: bool) -> bool:
        """Whether a column says yes; raises `UsageError` for what is neither yes nor no."""
        text = self.text(column).lower()
        if text in YES or text in NO:
            return text in YES
        if not text:
            return otherwise
        raise UsageError(f"Line {self.number} has {text!r} in the column {column}.", "Write yes or no there.")


def number(text: str, column: str, line: int) -> float:
    """A number of a field, 0 or more; raises `UsageError` for anything else."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= MOST_NUMBER:  # NaN is not either
        raise UsageError(
            f"Line {line} has {text[:40]!r} in the column {column}, which is no number from 0 to "
            f"{MOST_NUMBER:g}.",
            "Leave the field empty where nothing was measured, or correct it.",
        )
    return value


def read_lines(path: Path) -> tuple[tuple[str, ...], list[Line]]:
    """The columns of a CSV and its lines that are not blank. Raises `UsageError` for what is no such file."""
    if not path.is_file():
        what = f"{path} is a folder." if path.is_dir() else f"There is no table at {path}."
        raise UsageError(what, "Name a CSV file, such as docs/results/tables/h200-9b.csv.")
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(
                f"{path} is larger than {MOST_BYTES >> 20} MiB.", "Name a CSV of configurations."
            )
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, lines = _fields(path, file)
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text in UTF-8.", "Name a CSV file, saved as UTF-8.") from None
    except csv.Error as fault:
        raise UsageError(f"{path} is no CSV: {fault}.", "Correct it, or save it as CSV again.") from None
    except OSError as fault:
        raise UsageError(f"{path} can't be read: {fault.strerror}.", "Name a file that can.") from None
    other = next((mark for mark in OTHER_MARKS if len(header) == 1 and mark in header[0]), None)
    if other is not None:
        raise UsageError(
            f"{path} has columns that {OTHER_MARKS[other]} separate.", "Save it with commas between them."
        )
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise UsageError(f"{path} has the column {twice[0]!r} twice.", "Name each column once.")
    for at, fields in lines:
        if len(fields) != len(header):
            raise UsageError(
                f"Line {at} of {path} has {len(fields)} fields, and the header has {len(header)}.",
                "Give every line one field a column.",
            )
    return header, [Line(at, dict(zip(header, fields, strict=True))) for at, fields in lines]


def _fields(path: Path, file: TextIO) -> tuple[tuple[str, ...], list[tuple[int, list[str]]]]:
    """The header, and the fields of each line that is not blank with its number. Raises `UsageError` for more
    lines than `MOST_LINES`."""
    reader = csv.reader(file, strict=True)
    header = tuple(name.strip() for name in next(reader, []))
    lines = []
    for fields in reader:
        if any(field.strip() for field in fields):
            lines.append((reader.line_num, fields))
            if len(lines) > MOST_LINES:
                raise UsageError(f"{path} has more than {MOST_LINES:,} lines.", "Name a smaller table.")
    return header, lines


def is_knob(column: str) -> bool:
    """Whether a column is a knob's: its name has a dot and tells not what really ran."""
    return "." in column and not column.startswith(RESOLVED)


def is_result(column: str) -> bool:
    """Whether a column holds a result, and not what was measured on."""
    return column in RESULTS or column.startswith((RESOLVED, *TIMES))


def metric_of(columns: Sequence[str], asked: str | None) -> str:
    """The latency that is replayed: the one that is asked for, or the first there is. Raises `UsageError`
    where the table has none."""
    known = [each for each in TIMES if any(_centres(columns, each))]
    if asked is not None:
        if not any(_centres(columns, asked)):
            there = ", ".join(known) or "none"
            raise UsageError(
                f"The table has no column {asked}, {asked}_mean or {asked}_median.",
                f"Latencies that it has: {there}. Name one with --metric.",
            )
        return asked
    if not known:
        raise UsageError(
            "The table has no latency: no column such as tpot_ms (samples) or tpot_ms_mean.",
            "docs/replay.md lists the columns; name another latency with --metric.",
        )
    return known[0]


def _centres(columns: Sequence[str], metric: str) -> list[str]:
    names = (metric, *(f"{metric}_{centre}" for centre in CENTRES))
    return [name for name in names if name in columns]


def latency_of(lines: Sequence[Line], columns: Sequence[str], metric: str) -> Latency | None:
    """The latency of one configuration's lines: samples of all of them, or a centre with its spread; None
    where nothing was measured. Raises `UsageError` for a latency of 0, for a spread without a centre and for
    what is no count of samples."""
    if metric in columns:
        samples = [
            _above_zero(number(text, metric, line.number), metric, line.number)
            for line in lines
            for text in line.text(metric).translate(SEPARATORS).split()
        ]
        return Latency.of_samples(tuple(samples)) if samples else None
    line, column = lines[0], _centres(columns, metric)[0]
    centre = line.number_in(column)
    sd, count = line.number_in(f"{metric}_sd"), line.number_in(f"{metric}_n")
    if centre is None:
        if sd is not None:
            raise UsageError(f"Line {line.number} has {metric}_sd and no {column}.", "Give both or neither.")
        return None
    if count is not None and not (count.is_integer() and 1 <= count <= MOST_SAMPLES):
        raise UsageError(
            f"Line {line.number} has {count:g} in the column {metric}_n, which is no number of samples from "
            f"1 to {MOST_SAMPLES:,}.",
            "Correct it, or leave it empty for a mean of one sample.",
        )
    return Latency(_above_zero(centre, column, line.number), sd or 0.0, 1 if count is None else int(count))


def _above_zero(value: float, column: str, line: int) -> float:
    if value == 0:
        raise UsageError(f"Line {line} has the latency 0 in the column {column}.", "Correct it.")
    return value

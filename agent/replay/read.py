"""From a CSV of measured configurations to a table that can be replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from agent.replay.cells import (
    BASELINE,
    BUILD,
    BUILD_S,
    CAUSE,
    COMPILE_BUILD,
    COMPILE_S,
    FEASIBLE,
    LOAD_S,
    QUALITY,
    RESOLVED,
    RUN_S,
    SAMPLE,
    TOKENS_A_STEP,
    Line,
    is_knob,
    is_result,
    latency_of,
    metric_of,
    read_lines,
)
from agent.replay.knobs import restricted, space_of
from agent.replay.prior import bandwidth_of, prior_of, profiles_beside
from agent.replay.table import DEFAULT_QUALITY_LIMIT, Build, Row, Table, with_requests
from agent.tables.export import RESOLVED as RESOLVED_PATHS
from agent.tables.grid import as_measured
from configs.errors import UsageError
from configs.quantities import format_duration
from experiments.engines.port import PartTime
from experiments.space.configuration import Configuration
from experiments.space.knob import listed

WEIGHTS = ("pruning.", "quantization.")
"""Knobs whose values make a build where no column names it: configurations that share them share it."""


@dataclass(frozen=True)
class Asked:
    """What of a file is replayed: the latency (None: the first there is), lines whose columns have these
    values, the space (None: one that suits), and how much worse than trial 0 the quality may be."""

    metric: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    space: str | None = None
    quality_limit: float = DEFAULT_QUALITY_LIMIT

    def __post_init__(self) -> None:
        if self.quality_limit < 0:
            raise UsageError(
                f"A quality limit of {self.quality_limit:.3g} is below 0: trial 0 itself would not keep it.",
                "Give 0% or more with --quality-limit.",
            )


def read_table(path: Path, asked: Asked | None = None) -> Table:
    """The table of a CSV (docs/replay.md). A journal beside it of the same name (`.jsonl`) gives the steps of
    configurations by part. Raises `UsageError`, in a sentence, for whatever can't be replayed."""
    wanted = asked or Asked()
    columns, lines = read_lines(path)
    if not lines:
        raise UsageError(f"{path} has no lines.", "Give it a line for each configuration.")
    knobs = tuple(name for name in columns if is_knob(name))
    if not knobs:
        raise UsageError(
            f"{path} has no knob columns.", "Name a knob with a dot, such as quantization.group_size."
        )
    if RUN_S not in columns:
        raise UsageError(
            f"{path} has no column {RUN_S}.", "Give the seconds that a trial takes besides its build."
        )
    metric = metric_of(columns, wanted.metric)
    lines = _chosen(columns, lines, dict(wanted.where))
    name, space, configurations = space_of(knobs, lines, wanted.space)
    groups: dict[Configuration, list[Line]] = {}
    for line, configuration in zip(lines, configurations, strict=True):
        groups.setdefault(configuration, []).append(line)
    for group in groups.values():
        _check_group(columns, group)
    profiles = profiles_beside(path)
    rows = [
        _row(columns, configuration, group, metric, profiles.get(as_measured(configuration), ()))
        for configuration, group in groups.items()
    ]
    rows, left_out = _told_of(rows, list(groups.values()), metric)
    first = _baseline_of(list(groups), list(groups.values()), rows)
    line = groups[first.configuration][0]
    ordered = tuple(with_requests([first, *(row for row in rows if row is not first)]))
    return Table(
        path.stem,
        metric,
        restricted(space, (row.configuration for row in ordered)),
        ordered,
        prior_of(name, line, bandwidth_of(line)),
        wanted.quality_limit,
        left_out,
    )


def _chosen(columns: Sequence[str], lines: list[Line], where: Mapping[str, str]) -> list[Line]:
    """The lines whose columns have these values."""
    for column, value in where.items():
        if column not in columns:
            raise UsageError(f"There is no column {column!r}.", f"The columns are {', '.join(columns)}.")
        found = [line for line in lines if line.text(column) == value]
        if not found:
            there = sorted({line.text(column) for line in lines})
            raise UsageError(
                f"No line has {value!r} in the column {column}.", f"There it says {listed(there)}."
            )
        lines = found
    return lines


def _check_group(columns: Sequence[str], group: Sequence[Line]) -> None:
    """Raise `UsageError` where lines of one configuration are not samples of one measurement."""
    first = group[0]
    for line in group[1:]:
        differ = [name for name in columns if line.text(name) != first.text(name)]
        pair = f"Lines {first.number} and {line.number}"
        if not differ:
            raise UsageError(f"{pair} are the same.", "Leave one of them out.")
        ground = [name for name in differ if not is_knob(name) and not is_result(name)]
        if ground:
            raise UsageError(
                f"{pair} are one configuration, measured on different grounds: they differ in "
                f"{', '.join(ground)}.",
                f"Choose with --where {ground[0]}={first.text(ground[0])}.",
            )
        may = {SAMPLE, *(name for name in differ if name.endswith("_ms"))} if SAMPLE in columns else set()
        other = [name for name in differ if name not in may]
        if other:
            raise UsageError(
                f"{pair} are one configuration and contradict each other in {', '.join(other)}.",
                "Keep one of them; of single samples number each in a column sample.",
            )
    numbers = [line.text(SAMPLE) for line in group]
    twice = sorted({each for each in numbers if numbers.count(each) > 1})
    if len(group) > 1 and twice:
        raise UsageError(
            f"The sample {twice[0] or '(empty)'} of one configuration is there twice (line "
            f"{group[numbers.index(twice[0])].number}).",
            "Number the samples of a configuration.",
        )


def _row(
    columns: Sequence[str],
    configuration: Configuration,
    group: Sequence[Line],
    metric: str,
    profile: tuple[PartTime, ...],
) -> Row:
    line = group[0]
    feasible = line.yes(FEASIBLE, otherwise=True)
    latency = latency_of(group, columns, metric)
    if not feasible and latency is not None:
        raise UsageError(
            f"Line {line.number} contradicts itself: it did not run and has a {metric}.",
            "Empty the one or say yes in the column feasible.",
        )
    run_s, load_s = line.number_in(RUN_S), line.number_in(LOAD_S)
    resolved = {
        ".".join(RESOLVED_PATHS.get(name, (name.removeprefix(RESOLVED),))): line.text(name)
        for name in columns
        if name.startswith(RESOLVED) and line.text(name)
    }
    return Row(
        configuration,
        latency,
        line.number_in(QUALITY),
        _builds_of(line, configuration),
        (run_s or 0.0) + (load_s or 0.0),
        "" if feasible else line.text(CAUSE) or "failed",
        resolved,
        profile,
        line.number_in(TOKENS_A_STEP),
    )


def _builds_of(line: Line, configuration: Configuration) -> tuple[Build, ...]:
    """Weights, and compiled code where a line tells of it. Raises `UsageError` for seconds of no code."""
    made = {name: value for name, value in configuration.items() if name.startswith(WEIGHTS)}
    weights = line.text(BUILD) or Configuration.of(made).canonical_json()
    found = [Build(f"{BUILD} {weights}", line.number_in(BUILD_S) or 0.0)]
    code, compile_s = line.text(COMPILE_BUILD), line.number_in(COMPILE_S)
    if compile_s and not code:
        raise UsageError(
            f"Line {line.number} has {COMPILE_S} and no {COMPILE_BUILD}.",
            "Name what is compiled; lines with one name share it.",
        )
    if code:
        found.append(Build(f"{COMPILE_BUILD} {code}", compile_s or 0.0))
    return tuple(found)


def _told_of(
    rows: list[Row], groups: Sequence[Sequence[Line]], metric: str
) -> tuple[list[Row], tuple[str, ...]]:
    """The rows that can be replayed, with sentences on the others. A failure whose seconds nobody wrote down
    costs the median of what is told."""
    kept, without = [], []
    for row, group in zip(rows, groups, strict=True):
        if row.latency is None and not row.cause:
            without.append(group[0].number)
        else:
            kept.append(row)
    said = []
    if without:
        which = ", ".join(map(str, without))
        said.append(f"Ran without a {metric} and left out: {len(without)} (lines {which}).")
    ran = [row.latency for row in kept if row.latency is not None]
    same = sum(latency.sd_ms == 0 for latency in ran)
    if same:
        said.append(
            f"{same} of {len(ran)} configurations tell no spread of {metric}, and tell the same whenever "
            "they are measured."
        )
    costs = [row.run_s for row in kept if row.run_s > 0]
    if not costs:
        raise UsageError(
            "No line tells what a trial takes in run_s or load_s.", "Fill run_s with seconds above 0."
        )
    free = [row for row in kept if row.run_s == 0]
    if free:
        typical_s = median(costs)
        said.append(
            f"{len(free)} of {len(kept)} configurations tell no seconds and count as the median of the "
            f"others, {format_duration(typical_s)}."
        )
        kept = [replace(row, run_s=typical_s) if row.run_s == 0 else row for row in kept]
    return kept, tuple(said)


def _baseline_of(
    configurations: Sequence[Configuration], groups: Sequence[Sequence[Line]], rows: Sequence[Row]
) -> Row:
    """Trial 0: the row that the column `baseline` marks, else the first of the file."""
    marked = [
        configuration
        for configuration, group in zip(configurations, groups, strict=True)
        if group[0].yes(BASELINE, otherwise=False)
    ]
    if len(marked) > 1:
        raise UsageError(f"{len(marked)} configurations say yes in the column baseline.", "Mark one of them.")
    wanted = marked[0] if marked else configurations[0]
    found = next((row for row in rows if row.configuration == wanted), None)
    if found is None:
        raise UsageError(
            "Trial 0, the first line or the one marked in the column baseline, has no latency.",
            "Mark a row that was measured, or replay another metric with --metric.",
        )
    return found

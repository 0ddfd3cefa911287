"""From a table's journal to the CSV that planners are replayed on: a row for a configuration and workload.

Rows of failures stand there too, with their cause. A cell that was measured by several launches is one row,
its requests taken together: those of the main runs (`origins.py`) where these measured it, for machines
differ, else those of all. Of a shape (made-up weights) `quality` is empty, and where it drafts so is
everything that depends on how many drafts are accepted: what stands there is the time of a step, and how many
tokens a step would have to give to be as fast as the same configuration without drafting: by launches that
were measured together where there are some, else by all of both, which `baseline_run` tells.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median, stdev
from typing import Any

from agent.tables.cell import CellFigures, figures
from agent.tables.floor import drafter_read, step_bytes, told_drafter
from agent.tables.gpu import gpu_columns
from agent.tables.grid import COMES_WITH, DUMMY, TableWorkload, as_measured, in_full
from agent.tables.journal import Line, Scope, scope_of
from agent.tables.origins import RUN, Origin, Runs, main_runs, run_groups, with_origins
from agent.tables.prepared import Prepared
from agent.tables.trained import trained_columns
from configs.asked_over import ASKED_OVER, IN_ENGINE
from configs.models import ModelProfile
from experiments.engines.port import Infeasible
from experiments.space.configuration import Configuration

METRICS = ("ttft", "tpot", "itl", "e2el", "step")
"""Times that have a median, a standard deviation and a number of samples, in ms."""

SAMPLES = ("tpot", "ttft")
"""Those whose samples have a column, a request each in the order in which they were asked, launch by launch,
with a space between them."""

OF_ACCEPTANCE = ("tpot", "itl", "e2el")
"""Those that depend on how many drafts are accepted."""

DRAFTER = ("drafting", "drafter")
"""Where a resolved configuration tells of what drafts."""

DRAFTING = "drafting."
"""How knobs of drafting begin."""

WITH_DRAFTING = frozenset(
    knob for knob, older in COMES_WITH.items() if any(each.startswith(DRAFTING) for each in older)
)
"""Further knobs that a configuration has only where it drafts."""

RESOLVED = {
    "resolved.linear_kernel": ("linear_kernel",),
    "resolved.attention": ("attention",),
    "resolved.gdn_prefill": ("gdn", "prefill"),
    "resolved.gdn_backend": ("gdn", "backend"),
    "resolved.gdn_state_dtype": ("gdn_state_dtype",),
    "resolved.kv_cache_dtype": ("kv_cache_dtype",),
    "resolved.graph_mode": ("graph_mode",),
    "resolved.async_scheduling": ("async_scheduling",),
    "resolved.chunked_prefill": ("chunked_prefill",),
    "resolved.max_batch_tokens": ("max_batch_tokens",),
    "resolved.model_runner": ("model_runner",),
}
"""Columns of what really ran, and where a resolved configuration has it."""

DIGITS = 4
"""Digits after the point of a time in ms."""

SAMPLE_DIGITS = 3
"""The same of a sample."""

SAME_RUN, ANOTHER_RUN = "same", "another"
"""What `baseline_run` tells of a break-even: whether both times are of one run, or one GPU."""

RUN_MARK = "|"
"""What stands between several runs that a row is of."""

Key = tuple[str, str, Scope]
"""A row: load, workload, and what it was measured with."""


@dataclass
class _Row:
    """What was measured of one configuration and workload."""

    line: Line
    placed: list[tuple[Origin, Line]] = field(default_factory=list)
    """Each cell, and where it comes from."""
    failures: list[Line] = field(default_factory=list)
    placed_loads: list[tuple[Origin, Line]] = field(default_factory=list)
    """Each launch that came up, with what really ran."""

    @property
    def cells(self) -> list[Line]:
        """The cells alone."""
        return [line for _, line in self.placed]

    @property
    def loads(self) -> list[Line]:
        """The launches alone."""
        return [line for _, line in self.placed_loads]

    @property
    def resolved(self) -> Mapping[str, Any]:
        """What really ran, by the last load that tells it; empty where none does."""
        return next((load["resolved"] for load in reversed(self.loads) if load["resolved"]), {})

    @property
    def runs(self) -> Runs:
        """The runs of its cells."""
        return frozenset(origin.run for origin, _ in self.placed)

    def of(self, runs: Runs) -> _Row:
        """What these runs measured of it."""
        return replace(
            self,
            placed=[each for each in self.placed if each[0].run in runs],
            placed_loads=[each for each in self.placed_loads if each[0].run in runs],
        )


@dataclass(frozen=True)
class Exported:
    """A table: its columns in order, and its rows. `left_out` are rows of launches that are in no row because
    the main runs measured the same: by what was measured together, the latest first."""

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, object], ...]
    left_out: tuple[Mapping[str, object], ...] = ()

    def csv(self) -> str:
        """As CSV text, with an empty field where there is nothing."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, restval="", lineterminator="\n")
        writer.writeheader()
        for row in self.rows:
            writer.writerow({name: "" if value is None else value for name, value in row.items()})
        return text.getvalue()


def export(
    lines: Iterable[Line], profile: ModelProfile | None, bandwidth_bytes_per_s: float | None
) -> Exported:
    """The table of a journal; floors need the model's profile and the memory's bandwidth."""
    lines = list(lines)
    groups, main = run_groups(lines), main_runs(lines)
    measured = _rows(lines)
    rows = [row.of(main) if row.runs & main else row for row in measured]
    apart = [row for row in measured if row.runs & main]
    left_out = [row.of(runs) for runs in reversed(groups) if runs != main for row in apart if row.runs & runs]
    knobs = sorted({knob for row in rows for knob in row.line["configuration"]})
    made, made_apart = (
        [_made(row, knobs, profile, bandwidth_bytes_per_s, tells_run=len(groups) > 1) for row in each]
        for each in (rows, left_out)
    )
    if any("gpu" in cell for row in rows for cell in row.cells):
        for row, found in zip(rows, made, strict=True):
            made_up = _drafts(row.line) and bool(row.line["latency_only"])
            found |= gpu_columns(row.cells, of_acceptance=made_up)
    _add_trained(made, rows, lines)
    _break_even(made, rows)
    way = (ASKED_OVER,) if any(scope_of(row.line)[-1] != IN_ENGINE for row in rows) else ()
    for row, found in zip(rows, made, strict=True):
        found |= {name: scope_of(row.line)[-1] for name in way}
    first = ("model", "weights", "device", "driver", "engine_version", *way, "load", "stored_as", *knobs)
    others = tuple(dict.fromkeys(name for row in made for name in row if name not in first))
    return Exported((*first, *others), tuple(made), tuple(made_apart))


def _rows(lines: Sequence[Line]) -> list[_Row]:
    """Rows in the order of the grid where lines tell it, and in which their loads were first met. A load that
    failed has one for each workload that any load had, or one without a workload where there is none."""
    kinds = ("load", "cell", "failure")
    placed = [each for each in with_origins(lines) if each[1]["kind"] in kinds and not each[1].get("same")]
    lines = [line for _, line in placed]
    workloads = {line["workload"]["key"]: line["workload"] for line in lines if line.get("workload")}
    rows: dict[Key, _Row] = {}
    for origin, line in placed:
        if line["kind"] == "load":
            continue
        meant = [line["workload"]] if line.get("workload") else list(workloads.values()) or [None]
        for workload in meant:
            key = (line["load"], str(workload and workload["key"]), scope_of(line))
            row = rows.setdefault(key, _Row({**line, "workload": workload}))
            if line["kind"] == "cell":
                row.placed.append((origin, line))
            else:
                row.failures.append(line)
    launches: dict[tuple[str, Scope], list[tuple[Origin, Line]]] = {}
    for origin, line in placed:
        if line["kind"] == "load":
            before = launches.setdefault((line["load"], scope_of(line)), [])
            resolved = line["resolved"] or (before[-1][1]["resolved"] if before else None)
            before.append((origin, {**line, "resolved": resolved}))
    for (load, _, scope), row in rows.items():
        row.placed_loads = launches.get((load, scope), [])
    return sorted(rows.values(), key=lambda row: row.line.get("number", 0))


def _made(
    row: _Row,
    knobs: Sequence[str],
    profile: ModelProfile | None,
    bandwidth: float | None,
    *,
    tells_run: bool,
) -> dict[str, object]:
    line, identity, workload = row.line, row.line["identity"], row.line["workload"] or {}
    found: dict[str, object] = {
        "model": line["model"],
        "weights": line["weights"],
        "device": identity.get("name"),
        "driver": identity.get("driver"),
        "engine_version": identity.get("engine_version"),
        "load": line["load"],
        "stored_as": line["stored_as"],
        **{knob: _written(in_full(line["configuration"]).get(knob)) for knob in knobs},
    }
    found |= {column: _at(row.resolved, path) for column, path in RESOLVED.items()}
    found |= {name: workload.get(name) for name in ("concurrency", "prompt_tokens", "new_tokens", "requests")}
    failure = row.failures[-1]["failure"] if row.failures and not row.cells else None
    found |= {
        "feasible": "yes" if row.cells else "no",
        "cause_kind": failure and failure["kind"],
        "cause": failure and failure["cause"],
        "quality": None,
        "latency_only": "yes" if line["latency_only"] else "no",
        **({RUN: RUN_MARK.join(map(str, sorted(row.runs))) or None} if tells_run else {}),
        "launches": len({cell["launch"] for cell in row.cells}) or None,
        "build_s": 0 if line["latency_only"] else None,
        "load_s": _rounded(fmean(load["load_s"] for load in row.loads)) if row.loads else None,
        "run_s": _rounded(fmean(cell["run_s"] for cell in row.cells)) if row.cells else None,
        "beside_load": _beside(row.cells),
    }
    found |= _figures(row, drafts=_drafts(line) and bool(line["latency_only"]))
    found |= _floor(row, profile, bandwidth, found.get("step_ms_median"))
    return found


def _add_trained(made: Sequence[dict[str, object]], rows: Sequence[_Row], lines: Sequence[Line]) -> None:
    """Add what trained weights alone have, by device and version: nothing is prepared for others."""
    for scope in dict.fromkeys(map(scope_of, lines)):
        within = [line for line in lines if scope_of(line) == scope]
        prepared = Prepared(within)
        controls = {
            line["batch"]: line
            for line in within
            if line["kind"] == "cell" and line.get("control") == line["load"]
        }
        for row, found in zip(rows, made, strict=True):
            if scope_of(row.line) == scope:
                found |= trained_columns(row.cells, controls, prepared, row.line["load"])


def _figures(row: _Row, *, drafts: bool) -> dict[str, object]:
    """Columns of times; with drafts whose acceptance was set, not those that depend on it."""
    cells: list[CellFigures] = [figures(cell["requests"]) for cell in row.cells]
    found: dict[str, object] = {}
    for metric in METRICS:
        samples = [value for cell in cells for value in getattr(cell, f"{metric}_ms")]
        hidden = not samples or (drafts and metric in OF_ACCEPTANCE)
        found[f"{metric}_ms_median"] = None if hidden else round(median(samples), DIGITS)
        spread = None if hidden or len(samples) < 2 else round(stdev(samples), DIGITS)
        found[f"{metric}_ms_sd"] = spread
        found[f"{metric}_ms_n"] = None if hidden else len(samples)
        if metric in SAMPLES:
            found[f"{metric}_ms"] = (
                None if hidden else " ".join(f"{value:.{SAMPLE_DIGITS}f}" for value in samples)
            )
    throughput = fmean(cell.tokens_per_s for cell in cells) if cells and not drafts else None
    found["tokens_per_s"] = None if throughput is None else round(throughput, 2)
    return found


def _floor(
    row: _Row, profile: ModelProfile | None, bandwidth: float | None, step_ms: object
) -> dict[str, object]:
    unknown: dict[str, object] = {"step_bytes": None, "floor_ms": None, "above_floor_ms": None}
    told, configuration = row.line["workload"], Configuration.of(row.line["configuration"])
    if profile is None or bandwidth is None or told is None:
        return unknown
    workload = TableWorkload(**{name: told[name] for name in TableWorkload.__dataclass_fields__})
    made_up = row.line["weights"] == DUMMY
    try:
        told_of = told_drafter(_at(row.resolved, DRAFTER))
        drafter = drafter_read(profile, configuration, made_up=made_up, told=told_of)
        if drafter is None:
            return unknown
        moved = step_bytes(profile, configuration, workload, drafter)
    except Infeasible:  # such a row failed, and tells why
        return unknown
    floor_ms = moved.floor_ms(bandwidth)
    above = round(step_ms - floor_ms, DIGITS) if isinstance(step_ms, float) else None
    return {"step_bytes": round(moved.total), "floor_ms": round(floor_ms, DIGITS), "above_floor_ms": above}


def _break_even(made: Sequence[dict[str, object]], rows: Sequence[_Row]) -> None:
    """Add to rows that draft how many tokens a step must give to be as fast as without drafting, and whether
    both were measured together."""
    plain = {_place(row): row for row in rows if not _drafts(row.line)}
    for row, found in zip(rows, made, strict=True):
        found |= {"break_even_tokens_a_step": None, "baseline_run": None}
        alone = plain.get(_place(row)) if _drafts(row.line) else None
        if alone is None or not row.cells or not alone.cells:
            continue
        near = _measured_with(row, alone)
        with_ms = _median_ms(near or row.cells, "step")
        without_ms = _median_ms(_measured_with(alone, row) or alone.cells, "tpot")
        found["break_even_tokens_a_step"] = round(with_ms / without_ms, DIGITS)
        found["baseline_run"] = SAME_RUN if near else ANOTHER_RUN


def _measured_with(row: _Row, other: _Row) -> list[Line]:
    """The cells of a row that were measured in one run, or on one GPU, with some of another row."""
    return [cell for origin, cell in row.placed if any(origin.is_with(each) for each, _ in other.placed)]


def _median_ms(cells: Sequence[Line], metric: str) -> float:
    samples: list[float] = []
    for cell in cells:
        samples += getattr(figures(cell["requests"]), f"{metric}_ms")
    return round(median(samples), DIGITS)


def _place(row: _Row) -> tuple[object, ...]:
    """What a row has in common with the one that differs from it by its drafting alone."""
    workload, knobs = row.line["workload"] or {}, _without_drafting(row.line["configuration"])
    return row.line["stored_as"], workload.get("key"), scope_of(row.line), tuple(sorted(knobs.items()))


def _without_drafting(knobs: Mapping[str, Any]) -> dict[str, Any]:
    """The knobs that a configuration has without its drafting, but for those that say what was done before
    they were there: scheduling is vLLM's own choice again."""
    kept = {
        knob: value
        for knob, value in as_measured(knobs).items()
        if not knob.startswith(DRAFTING) and knob not in WITH_DRAFTING
    }
    return {"serving.async_scheduling": "auto", **kept, "drafting.method": "none"}


def _drafts(line: Line) -> bool:
    return bool(line["configuration"].get("drafting.method", "none") != "none")


def _beside(cells: Sequence[Line]) -> str | None:
    """What went on beside the cells, `|` between those that differ."""
    told = {
        each["at_start"] if each["at_start"] == each["at_end"] else "part"
        for each in (cell["beside"] for cell in cells)
    }
    return "|".join(sorted(told)) or None


def _at(resolved: Mapping[str, Any], path: Sequence[str]) -> object:
    found: Any = resolved
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _written(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _rounded(value: float) -> float:
    return round(value, 3)

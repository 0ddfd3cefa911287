"""A table of trained weights as a page in Markdown: what is fast and keeps the quality. Pure.

Effects are against the control of the same batch (`tpot_over_control`), for the machine's pace changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median, stdev

from agent.tables.aa import MOST, launch_noise, repeated
from agent.tables.beside import beside_cores, is_disturbed
from agent.tables.cell import figures
from agent.tables.export import Exported
from agent.tables.journal import Line
from knowledge.figures import counted

BITS_MARGIN = 0.01
"""How many more bits per byte than the control's keep the quality: a campaign's default."""

FASTEST = 20
"""How many of those that keep the quality are shown."""

THREADS = "serving.threads"
"""The knob by whose values noise is told apart: more threads than one wait for each other."""

Row = Mapping[str, object]


def trained_page(lines: Sequence[Line], table: Exported, title: str, commands: Sequence[str]) -> str:
    """The page of a journal's lines and the CSV that was made of them."""
    rows = table.rows
    control = next((row for row in rows if row.get("baseline") == "yes"), None)
    measured = [row for row in rows if row.get("tpot_over_control") is not None]
    head = [
        f"# {title}",
        "",
        *[f"- {each}" for each in _measured_on(rows, measured)],
        *[f"- `{each}`" for each in commands],
        "",
    ]
    if control is None:
        return "\n".join([*head, "Nothing was measured yet.", ""])
    kept = [row for row in measured if _bits_over(row, control) <= BITS_MARGIN]
    kept.sort(key=lambda row: _number(row["tpot_over_control"]))
    knobs = [name for name in table.columns if "." in name and not name.startswith("resolved.")]
    shown = [_row(row, control, knobs) for row in kept[:FASTEST]]
    alone = [row for row in measured if len(_levers(row, control, knobs)) == 1]
    return "\n".join(
        [
            *head,
            "## Fastest with the quality kept",
            "",
            f"At most {BITS_MARGIN:.0%} more bits per byte than the control: {len(kept)} of the "
            f"{len(measured)} that ran, of which at most {FASTEST} are shown. `over control` is TPOT over "
            "that of the control beside it.",
            "",
            *_table(COLUMNS, shown),
            "",
            "## One lever alone",
            "",
            *_table(COLUMNS, [_row(row, control, knobs) for row in alone]),
            "",
            "## How steady it was",
            "",
            *_steadiness(lines),
            "",
            "## How far two launches of one configuration differ",
            "",
            *_launches_differ(lines),
            "",
            "## What failed",
            "",
            *_failed(rows, control, knobs),
            "",
        ]
    )


COLUMNS = ("configuration", "TPOT, ms", "over control", "tokens a step", "bits per byte", "tasks", "launches")


def _measured_on(rows: Sequence[Row], measured: Sequence[Row]) -> list[str]:
    where = dict.fromkeys(f"{row['device']}; {row['engine_version']}" for row in rows)
    launches = [int(_number(row["launches"])) for row in measured] or [0]
    each = f"by {min(launches)} to {max(launches)} launches each"
    told = f"{counted(len(measured), 'configuration')} measured, {each}"
    failed = sum(row["feasible"] == "no" for row in rows)
    return [*where, f"{told}; {failed} failed"]


def _row(row: Row, control: Row, knobs: Sequence[str]) -> tuple[str, ...]:
    tasks = row["tasks_solved"]
    return (
        _words(row, control, knobs),
        f"{_number(row['tpot_ms_median']):.2f} ± {_number(row['tpot_ms_sd'] or 0):.2f}",
        f"{_number(row['tpot_over_control']):.3f}",
        f"{_number(row['tokens_a_step']):.2f}",
        f"{_bits_over(row, control):+.2%}",
        "–" if tasks is None else f"{_number(tasks):.1%}",
        str(row["launches"]),
    )


def _words(row: Row, control: Row, knobs: Sequence[str]) -> str:
    """How a row differs from the control; a knob that the control lacks is told too."""
    changed = [
        f"`{name}={row[name]}`"
        for name in knobs
        if row.get(name) is not None and row.get(name) != control.get(name)
    ]
    return ", ".join(changed) or "the control"


def _levers(row: Row, control: Row, knobs: Sequence[str]) -> set[str]:
    return {name.partition(".")[0] for name in knobs if row.get(name) != control.get(name)}


def _bits_over(row: Row, control: Row) -> float:
    return _number(row["quality"]) / _number(control["quality"]) - 1


def _steadiness(lines: Sequence[Line]) -> list[str]:
    """How far the control differed from batch to batch, and what else ran while batches were served."""
    cells = [line for line in lines if line["kind"] == "cell" and line.get("control") == line["load"]]
    tpot_ms = [median(figures(cell["requests"]).tpot_ms) for cell in cells]
    in_batches = counted(len(tpot_ms), "batch", "batches")
    told = [
        f"The control's median TPOT, in {in_batches} with a fresh launch each, was "
        f"{min(tpot_ms):.2f} to {max(tpot_ms):.2f} ms, {median(tpot_ms):.2f} ms in the middle"
        + (f", with a standard deviation of {stdev(tpot_ms):.2f} ms." if len(tpot_ms) > 1 else ".")
    ]
    batches = [line for line in lines if line["kind"] == "batch"]
    calm = [line for line in batches if not is_disturbed(line)]
    shares = [cores for line in calm if (cores := beside_cores(line)) is not None]
    if shares:
        told.append(
            f"Beside the launches {median(shares):.2f} cores were busy in the median batch and "
            f"{max(shares):.2f} in the busiest; what asks the launches is part of that."
        )
    if len(calm) < len(batches):
        told.append(
            f"{len(batches) - len(calm)} more batches, beside which other work took the processor, are not "
            "counted."
        )
    return told


def _launches_differ(lines: Sequence[Line]) -> list[str]:
    """A/A: what of a difference between rows is noise, alone and by the number of threads."""
    loads = repeated(lines)
    if not loads:
        return ["No configuration but the control had two launches."]
    groups = {"all": loads}
    for value in sorted({str(load.configuration.get(THREADS)) for load in loads}):
        alike = tuple(load for load in loads if str(load.configuration.get(THREADS)) == value)
        if len(alike) < len(loads):
            groups[f"`{THREADS}={value}`"] = alike
    noises = {name: launch_noise(group) for name, group in groups.items()}
    body = [
        (
            name,
            str(noise.loads),
            f"{noise.median_share:.1%}",
            f"{noise.most_share:.1%}",
            f"{noise.furthest_share:.1%}",
            f"{noise.launch_sd:.1%}",
        )
        for name, noise in noises.items()
    ]
    head = (
        "configurations",
        "how many",
        "median pair",
        f"{MOST:.0%} of pairs, at most",
        "furthest pair",
        "sd of a launch",
    )
    told = (
        "Fresh launches of the same configuration in different batches (A/A), each by its median TPOT over "
        "that of the control beside it. Rows that differ by less than launches do are not told apart."
    )
    return [told, "", *_table(head, body)]


def _failed(rows: Sequence[Row], control: Row, knobs: Sequence[str]) -> list[str]:
    failed = [
        (_words(row, control, knobs), str(row["cause_kind"]), str(row["cause"]))
        for row in rows
        if row["feasible"] == "no"
    ]
    return _table(("configuration", "kind", "cause"), failed) if failed else ["Nothing failed."]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [" | ".join(columns), " | ".join("---" for _ in columns), *(" | ".join(row) for row in rows)]
    return [f"| {line} |" for line in lines]


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)

"""Kernels timed alone, as they are printed: milliseconds of a step's products by format and kernel, and
seconds of their first calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.console.output import console, fields, table

if TYPE_CHECKING:
    from knowledge.queries.measured.kernel_timings import FormatTimings, KernelTimingRow, KernelTimingsView

NOTHING = "—"

COLUMNS = (
    "weights, kernel",
    ">products, ms",
    ">of 16 bits",
    ">head, ms",
    ">first calls, s",
    "what ran",
)


def print_kernel_timings(view: KernelTimingsView) -> None:
    """Print what was timed, or why nothing was."""
    out = console()
    if view.failed is not None:
        out.print(f"They could not be timed: {view.failed}")
        return
    rows = [cells for each in view.formats for cells in _of_format(view, each)]
    out.print(table(COLUMNS, rows, wide=COLUMNS[-1:]))
    if view.notes:
        out.print(fields((_note(number), why) for number, why in enumerate(view.notes, 1)))
    out.print(view.first_calls, style="dim")
    out.print(view.basis, style="dim")


def _of_format(view: KernelTimingsView, found: FormatTimings) -> list[tuple[str, ...]]:
    """The lines of a format: its name and its kernels below it, or its name alone where it has none."""
    rows = (*found.timed, *found.untimed)
    if found.is_plain:
        return [_cells(view, found.stored, row) for row in rows]
    begun = (found.stored, *("" for _ in COLUMNS[1:]))
    return [begun, *(_cells(view, f"  {row.value}", row) for row in rows)]


def _cells(view: KernelTimingsView, name: str, row: KernelTimingRow) -> tuple[str, ...]:
    why, head = view.mark(row.note), view.mark(row.head_note)
    return (
        name,
        _ms(row.products_ms),
        NOTHING if row.share_of_plain is None else f"{100 * row.share_of_plain:.0f} %",
        _ms(row.head_ms) if head is None else _note(head),
        row.first_calls or NOTHING,
        row.kernel if why is None else f"{row.no_time}, {_note(why)}",
    )


def _note(number: int) -> str:
    return f"note {number}"


def _ms(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"

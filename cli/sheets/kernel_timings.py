"""Kernels timed alone, as they are printed: milliseconds of a step's products by format and kernel, and
seconds of their first calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.console.output import console, table

if TYPE_CHECKING:
    from knowledge.queries.measured.kernel_timings import KernelTimingRow, KernelTimingsView

NOTHING = "—"

COLUMNS = (
    "weights",
    "kernel",
    ">products, ms",
    ">of 16 bits",
    ">head, ms",
    ">first calls, s",
    "what ran, or why not",
)


def print_kernel_timings(view: KernelTimingsView) -> None:
    """Print what was timed, or why nothing was."""
    out = console()
    if view.failed is not None:
        out.print(f"They could not be timed: {view.failed}")
        return
    out.print(table(COLUMNS, [_cells(row) for row in view.rows], wide=COLUMNS[-1:]))
    out.print(view.first_calls, style="dim")
    out.print(view.basis, style="dim")


def _cells(row: KernelTimingRow) -> tuple[str, ...]:
    refused = "refused: " if row.refused else ""
    return (
        row.stored,
        row.value,
        _ms(row.products_ms),
        NOTHING if row.share_of_plain is None else f"{100 * row.share_of_plain:.0f} %",
        _ms(row.head_ms),
        NOTHING if row.first_calls_s is None else f"{row.first_calls_s:.1f}",
        row.kernel if row.note is None else f"{refused}{row.note}",
    )


def _ms(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"

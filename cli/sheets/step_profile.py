"""The profile of a decode step or of a lone prompt, as it is printed: the time of each part, its floor, and
what lies above."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.console.output import console, table
from knowledge.figures import counted

if TYPE_CHECKING:
    from knowledge.queries.measured.step_profile import PartRow, StepProfileView

US_PER_MS = 1e3

NOTHING = "—"

NOT_COUNTED = "not counted"
"""The floor of a part whose work is not counted."""

MOST_UNKNOWN = 8
"""Kernels of unknown names that are listed; all of them are in the artifact."""


def print_step_profile(profile: StepProfileView) -> None:
    """Print a profile; times in microseconds a step."""
    out = console()
    counts = any(row.launches for row in profile.parts)
    columns = [
        "part",
        ">µs",
        ">share",
        *([">kernels"] if counts else []),
        ">MB",
        ">floor, µs",
        ">above it, µs",
    ]
    rows = [_cells(row, counts) for row in profile.parts]
    rows.append(_together(profile, counts))
    out.print(table((*columns, f">{profile.share_of_floor}"), rows))
    if profile.uncounted is not None:
        out.print(profile.uncounted, style="dim")
    if profile.served is not None:
        out.print(profile.served)
    out.print(profile.basis, style="dim")
    for each in profile.unknown_kernels[:MOST_UNKNOWN]:
        calls = "call" if each.launches == 1 else "calls"
        out.print(f"of unknown name: {each.us:.1f} µs in {each.launches:g} {calls} of {each.name}")
    if len(profile.unknown_kernels) > MOST_UNKNOWN:
        left = len(profile.unknown_kernels) - MOST_UNKNOWN
        out.print(f"and {counted(left, 'other', 'others')}, which the artifact lists")


def _cells(row: PartRow, counts: bool) -> tuple[str, ...]:
    return (
        row.words,
        f"{US_PER_MS * row.time_ms:,.0f}",
        f"{100 * row.share:.1f} %",
        *((f"{row.launches:g}" if row.launches else NOTHING,) if counts else ()),
        f"{row.moved_bytes / 1e6:,.1f}" if row.moved_bytes else NOTHING,
        _us(row.floor_ms or None) if row.counted else NOT_COUNTED,
        _us(row.above_ms),
        _percent(row.floor_share),
    )


def _together(profile: StepProfileView, counts: bool) -> tuple[str, ...]:
    return (
        profile.whole,
        f"{US_PER_MS * profile.step_ms:,.0f}",
        "100 %",
        *((f"{profile.launches:g}",) if counts else ()),
        f"{sum(row.moved_bytes for row in profile.parts) / 1e6:,.1f}",
        _us(profile.floor_ms),
        _us(profile.above_ms),
        _percent(profile.floor_share),
    )


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.0f} %"


def _us(time_ms: float | None) -> str:
    return NOTHING if time_ms is None else f"{US_PER_MS * time_ms:,.0f}"

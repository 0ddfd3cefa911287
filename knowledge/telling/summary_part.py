"""One part of a summary: its view, and how many lines of it are told."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.queries.view import View

MOST_NAMED = 5
"""Hypotheses named in one part; the rest are counted."""


class PartView(View):
    """One part of a summary: a sentence that stands alone, and lines under it."""

    title: str
    sentence: str
    lines: tuple[str, ...] = ()


def named(lines: Sequence[str], most: int) -> tuple[str, ...]:
    """Return the first lines, and how many more there are."""
    if len(lines) <= most:
        return tuple(lines)
    return (*lines[:most], f"and {len(lines) - most} more")

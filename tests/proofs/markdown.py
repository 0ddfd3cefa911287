"""Paragraphs and tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill

WIDTH = 118
"""Columns of a paragraph."""


def paragraph(text: str) -> str:
    """The text in lines of `WIDTH`."""
    return fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def point(text: str) -> str:
    """The text as one of a list, in lines of `WIDTH`."""
    return fill(
        text,
        WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with its head."""
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)

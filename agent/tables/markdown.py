"""What a table's page writes its own tables with. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MISSING = "–"
"""In place of what is not known."""


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])

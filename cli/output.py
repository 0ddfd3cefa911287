"""What is printed: JSON documents, and calm text that needs neither a terminal nor a wide one.

Text goes through one rich console without markup, so that what a user or a model wrote is never taken for a
style; colour comes on top of words on a terminal, and nowhere else.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

PLAIN_WIDTH = 120
"""Columns when the output is no terminal and `COLUMNS` is not set."""

_STYLES = {
    "supported": "green",
    "holds": "green",
    "done": "green",
    "ok": "green",
    "refuted": "red",
    "failed": "red",
    "fail": "red",
    "contradicted": "red",
    "infeasible": "magenta",
    "confounded": "magenta",
    "inconclusive": "yellow",
    "stale": "yellow",
    "warn": "yellow",
    "paused": "yellow",
    "testing": "cyan",
    "running": "cyan",
}
"""The colour of a word of state; the word itself is always there."""


def print_json(document: BaseModel | dict[str, Any] | list[Any], *, line: bool = False) -> None:
    """Print one JSON document, indented; with `line` on a single line and at once, for streams."""
    data = document if isinstance(document, dict | list) else document.model_dump(mode="json")
    text = json.dumps(data, ensure_ascii=False, indent=None if line else 2)
    print(text, flush=line)


def console() -> Console:
    """Return the console for text on standard output."""
    import os

    from rich.console import Console

    plain = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PLAIN_WIDTH
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=False, width=plain)


def say(*lines: str) -> None:
    """Print lines of text, wrapped at words."""
    out = console()
    for text in lines:
        out.print(text)


def state(word: str) -> Text:
    """Return a word of state, coloured where there is colour."""
    from rich.text import Text

    return Text(word, style=_STYLES.get(word, ""))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[RenderableType]], *, wide: Sequence[str] = ()
) -> Table:
    """Return a table without lines: the `wide` columns share what is left and wrap, the others stay whole.

    A column named with a leading `>` is aligned to the right.
    """
    from rich.table import Table

    found = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        name = column.removeprefix(">")
        is_wide = name in wide
        found.add_column(
            name,
            justify="right" if column.startswith(">") else "left",
            overflow="fold",
            no_wrap=not is_wide,
            ratio=1 if is_wide else None,
        )
    for row in rows:
        found.add_row(*row)
    return found


def fields(pairs: Iterable[tuple[str, RenderableType | None]]) -> Table:
    """Return names and values below each other; pairs without a value are left out."""
    from rich.table import Table

    found = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    found.add_column(style="dim", no_wrap=True)
    found.add_column(overflow="fold", ratio=1)
    for name, value in pairs:
        if value is not None and value != "":
            found.add_row(name, value)
    return found


def when(instant: datetime | None) -> str:
    """Return an instant in local time, to the second, with its offset; a dash for none."""
    return "—" if instant is None else instant.astimezone().strftime("%Y-%m-%d %H:%M:%S%z")


def pager_line(shown: int, total: int, offset: int, noun: str) -> str | None:
    """Return the line under a list that does not show everything: what is shown, and how to see more."""
    if shown == total:
        return None
    if shown == 0:
        return f"none from {offset + 1} on; there are {total} {noun}"
    return f"{offset + 1} to {offset + shown} of {total} {noun}; more with --offset {offset + shown}"

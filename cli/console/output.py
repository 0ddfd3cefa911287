"""What is printed: JSON documents, and calm text that needs neither a terminal nor a wide one.

Text goes through one rich console without markup, so that what a user or a model wrote is never taken for a
style; colour comes on top of words on a terminal, and nowhere else.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO, cast

from configs.moments import format_moment, format_zone

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

PLAIN_WIDTH = 120
"""Columns when the output is no terminal and `COLUMNS` is not set."""

_GAP = 2
"""Spaces between the columns of a table."""

_LEAST_WIDE = 24
"""Columns below which wrapped text is too narrow to read."""

_TRAILING = re.compile(r" +$", re.MULTILINE)

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
    "test failed": "yellow",
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
    from cli.console.terminal import Steadfast

    plain = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PLAIN_WIDTH
    file = None if sys.stdout.isatty() else cast(TextIO, _Trimmed())
    return Steadfast(file=file, markup=False, highlight=False, emoji=False, width=plain)


class _Trimmed(io.TextIOBase):
    """Standard output without the spaces that fill up a table's lines."""

    def write(self, text: str) -> int:
        sys.stdout.write(_TRAILING.sub("", text))
        return len(text)

    def flush(self) -> None:
        sys.stdout.flush()


def say(*lines: str) -> None:
    """Print lines of text, wrapped at words."""
    out = console()
    for text in lines:
        out.print(text)


def state(word: str, *, latency_only: bool = False) -> Text:
    """Return a word of state, coloured where there is colour; with what it speaks of, where the weights are
    made up."""
    from rich.text import Text

    return Text(f"{word}, latency only" if latency_only else word, style=_STYLES.get(word, ""))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[RenderableType]], *, wide: Sequence[str] = ()
) -> RenderableType:
    """Return a table without lines: the `wide` columns share what is left and wrap, the others stay whole.

    A column named with a leading `>` is aligned to the right. Where the terminal is too narrow for that, each
    row is written as a list of its fields instead, so that nothing is cut off.
    """
    from rich.console import Group
    from rich.table import Table

    filled = [tuple(row) for row in rows]
    names = [column.removeprefix(">") for column in columns]
    if _least_width(names, filled, wide) > console().width:
        blocks: list[RenderableType] = []
        for row in filled:
            blocks += [fields(zip(names, row, strict=True)), ""]
        return Group(*blocks[:-1])
    found = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for column, name in zip(columns, names, strict=True):
        found.add_column(
            name,
            justify="right" if column.startswith(">") else "left",
            overflow="fold",
            no_wrap=name not in wide,
            ratio=1 if name in wide else None,
        )
    for row in filled:
        found.add_row(*row)
    return found


def _least_width(names: Sequence[str], rows: Sequence[Sequence[RenderableType]], wide: Sequence[str]) -> int:
    """Return the columns a table needs at least: whole cells, and `_LEAST_WIDE` for each wide column."""
    from rich.cells import cell_len

    widths = [cell_len(name) for name in names]
    for row in rows:
        for place, cell in enumerate(row):
            if names[place] not in wide:
                widths[place] = max(widths[place], *(cell_len(line) for line in str(cell).split("\n")))
    for place, name in enumerate(names):
        if name in wide:
            longest = max((cell_len(str(row[place])) for row in rows), default=0)
            widths[place] = max(widths[place], min(longest, _LEAST_WIDE))
    return sum(widths) + _GAP * (len(names) - 1)


def fields(pairs: Iterable[tuple[str, RenderableType | None]]) -> Table:
    """Return names and values below each other; pairs without a value are left out."""
    from rich.table import Table

    found = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
    found.add_column(style="dim", no_wrap=True)
    found.add_column(overflow="fold", ratio=1)
    for name, value in pairs:
        if value is not None and value != "":
            found.add_row(name, value)
    return found


def when(instant: datetime | None) -> str:
    """Return an instant by this machine's clock, with the zone of that; a dash for none."""
    return "—" if instant is None else f"{format_moment(instant)} {format_zone(instant)}"


def pager_line(shown: int, total: int, offset: int, noun: str) -> str | None:
    """Return the line under a list that does not show everything: what is shown, and how to see more."""
    if shown == total:
        return None
    if shown == 0:
        return f"none from {offset + 1} on; there are {total} {noun}"
    seen = offset + shown
    more = f"; more with --offset {seen}" if seen < total else ""
    return f"{offset + 1} to {seen} of {total} {noun}{more}"

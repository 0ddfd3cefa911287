"""What a report is made of, before it is HTML or Markdown: sections of paragraphs, tables, figures, listings.

Texts may have `code` between backticks and **words that lead**; labels such as E-0003 lead to their row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

MOST_ROWS = 150
"""Rows of a table that are written; the JSON form has all of them."""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list of short texts."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A row of a table; `anchor` is the label that leads to it, `mark` the outcome whose shape stands before
    the first cell."""

    cells: tuple[str, ...]
    anchor: str | None = None
    mark: str | None = None


@dataclass(frozen=True)
class Table:
    """A table with its caption. A column whose name begins with `>` is of figures. `left_out` rows are only
    in the JSON form."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    left_out: int = 0
    number: int = 0


@dataclass(frozen=True)
class Figure:
    """A figure with its caption; Markdown leaves the drawing out and keeps the caption."""

    caption: str
    drawing: Markup
    number: int = 0


@dataclass(frozen=True)
class Listing:
    """Text as it stands in a file or on a command line."""

    text: str


Block = Paragraph | Points | Table | Figure | Listing


@dataclass(frozen=True)
class Section:
    """A section, numbered in its order."""

    title: str
    blocks: tuple[Block, ...]
    number: int = 0

    @property
    def anchor(self) -> str:
        """What its address ends with."""
        return f"s{self.number}"


@dataclass(frozen=True)
class Document:
    """A whole report; `abstract` says it in a few sentences, `facts` stand below the title."""

    title: str
    abstract: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    marks: tuple[str, ...]
    sections: tuple[Section, ...] = field(default=())


def table(caption: str, columns: Sequence[str], rows: Sequence[Row]) -> Table:
    """A table of the first `MOST_ROWS` rows, which says how many it leaves out."""
    return Table(caption, tuple(columns), tuple(rows[:MOST_ROWS]), max(0, len(rows) - MOST_ROWS))


def numbered(sections: Sequence[Section]) -> tuple[Section, ...]:
    """The sections with their numbers, and the numbers of their tables and figures."""
    found, tables, figures = [], 0, 0
    for place, section in enumerate(sections, start=1):
        blocks: list[Block] = []
        for block in section.blocks:
            if isinstance(block, Table):
                tables += 1
                block = Table(block.caption, block.columns, block.rows, block.left_out, tables)
            elif isinstance(block, Figure):
                figures += 1
                block = Figure(block.caption, block.drawing, figures)
            blocks.append(block)
        found.append(Section(section.title, tuple(blocks), place))
    return tuple(found)

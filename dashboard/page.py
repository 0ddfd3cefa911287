"""A page: what its URL may say, what it reads, which events change it.

One reading function gives a page's view, a model that is HTML at its address, JSON at `.json`, CSV at `.csv`
where it is a table, and that is rendered again for everybody who looks at it when an event changes it. So the
first render, the pushes and the twins can't say different things.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, model_validator
from sqlalchemy.orm import Session

from configs.settings import Settings
from dashboard.devices import Devices
from dashboard.rendering.environment import render
from db.event_kinds import EventKind
from experiments.remote.ending import Make
from knowledge.queries.view import View


class Filters(BaseModel):
    """What the query of a URL may say; all state of a view stands there. What is unknown is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _said(cls, given: object) -> object:
        """What a form's field that was left empty sends is as if it were not there."""
        if not isinstance(given, Mapping):
            return given
        return {name: value for name, value in given.items() if value not in ("", [""])}


MOMENT_S = 0.5
"""Seconds that a view which tells of more than the database is kept while the database stands still: of the
clock, a file, a process. At most twice as long, while another is made."""

READING_S = 0.25
"""The same of one that shows readings of devices, which come once a second."""

ALWAYS_S = math.inf
"""Of a view that the database alone makes: it is kept until something is written."""

Asked = TypeVar("Asked", bound=Filters)
Shown = TypeVar("Shown", bound=View)


@dataclass(frozen=True)
class Ground:
    """What a page may read besides its URL: the settings of this server, the readings of its devices.

    `executor` makes the executor of a name, for a target if one is known, by which acts end what is paid for;
    None where this server was given none, and then a page tells the command instead.
    """

    settings: Settings
    devices: Devices = field(default_factory=Devices)
    executor: Make | None = None


@dataclass(frozen=True)
class Request(Generic[Asked]):
    """What was asked of a page: the parameters of its path, such as `label`, and its filters."""

    path: Mapping[str, str]
    filters: Asked


@dataclass(frozen=True)
class Table:
    """Rows for `.csv`: the names of the columns and a value for each."""

    columns: tuple[str, ...]
    rows: Iterable[tuple[object, ...]]


@dataclass(frozen=True)
class Page(Generic[Asked, Shown]):
    """A page and its twins.

    `path` has parameters in braces, and `template` is the page's folder among the templates: `page.html`
    extends the layout and includes `_live.html`, which alone is rendered again for a push. `kinds` are the
    events that change it, None for all, empty for none; one that `ticks` changes with time instead and is
    pushed at the pace of the devices' readings. `command` is the same act on the command line. `lasts_s` is
    how long a view may be shown again while nothing is written to the database.
    """

    name: str
    title: str
    path: str
    filters: type[Asked]
    shows: type[Shown]
    read: Callable[[Session, Request[Asked], Ground], Shown]
    command: Callable[[Request[Asked]], str]
    table: Callable[[Shown], Table] | None = None
    kinds: Collection[EventKind] | None = None
    tag: str = field(default="pages")
    ticks: bool = False
    lasts_s: float = MOMENT_S

    @property
    def template(self) -> str:
        """The template of the whole page."""
        return f"{self.name}/page.html"

    @property
    def partial(self) -> str:
        """The template of the part that is pushed."""
        return f"{self.name}/_live.html"

    def live(self, view: Shown, request: Request[Asked]) -> str:
        """The part that is pushed, as HTML."""
        return render(self.partial, {"view": view, "request": request, "page": self})

    def changes_with(self, kinds: Collection[str]) -> bool:
        """Whether events of these kinds change the page."""
        return self.kinds is None or bool(set(kinds) & {kind.value for kind in self.kinds})


def as_csv(table: Table) -> str:
    """The table with its head, lines ended as RFC 4180 has it; a structure is written as JSON.

    A text that a spreadsheet would take for a formula is led by an apostrophe.
    """
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(table.columns)
    writer.writerows([spreadsheet_cell(value) for value in row] for row in table.rows)
    return written.getvalue()


def spreadsheet_cell(value: object) -> object:
    """A value as it is written into CSV; see `as_csv`."""
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, default=str)
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value

"""Compare: any number of experiments side by side, all of it or the differences alone."""

from __future__ import annotations

from urllib.parse import urlencode

from pydantic import Field
from sqlalchemy.orm import Session

from configs.errors import UsageError
from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request, Table
from dashboard.pages.experiments import CHANGED_BY
from db.labels import Noun, format_label, parse_label_of
from knowledge.queries.lookup import existing
from knowledge.queries.measured.comparison import ComparisonView, compare

PATH = "/compare"


class CompareFilters(Filters):
    """Which experiments, by their labels with commas between, and whether only what differs."""

    ids: str = Field(default="", max_length=4000, description="Labels with commas: E-0001,E-0002.")
    id: tuple[str, ...] = Field(
        default=(), max_length=500, description="One label each, as a form sends them."
    )
    differences: bool = Field(default=False, description="Only the lines that differ.")

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, each once, in their order."""
        given = [*self.ids.split(","), *self.id]
        return tuple(dict.fromkeys(each.strip() for each in given if each.strip()))

    def href(self, labels: tuple[str, ...] | None = None, differences: bool | None = None) -> str:
        """The address with other labels, or with all lines instead of the differences."""
        only = self.differences if differences is None else differences
        query = {"ids": ",".join(self.labels if labels is None else labels)}
        return f"{PATH}?{urlencode({**query, **({'differences': '1'} if only else {})}, safe=',')}"

    def without(self, label: str) -> str:
        """The address without one of the experiments."""
        return self.href(tuple(each for each in self.labels if each != label))


def read(session: Session, request: Request[CompareFilters], ground: Ground) -> ComparisonView:
    """Read the experiments side by side; raises `UsageError` for a label that names none."""
    numbers = list(dict.fromkeys(parse_label_of(Noun.EXPERIMENT, each) for each in request.filters.labels))
    if not numbers:
        return ComparisonView(experiments=(), groups=(), left_out=0)
    found = compare(session, numbers, differences=request.filters.differences)
    there = {each.id for each in found.experiments}
    for number in numbers:
        if format_label(Noun.EXPERIMENT, number) not in there:
            existing(session, Noun.EXPERIMENT, number)
            raise UsageError(f"{format_label(Noun.EXPERIMENT, number)} does not exist.")
    return found


def command(request: Request[CompareFilters]) -> str:
    """The same facts on the command line: each experiment's own sheet."""
    labels = [
        format_label(Noun.EXPERIMENT, parse_label_of(Noun.EXPERIMENT, each))
        for each in request.filters.labels
    ]
    return "; ".join(f"autoinfer show {label}" for label in labels) or "autoinfer experiments"


def table(view: ComparisonView) -> Table:
    """A line a row, an experiment a column."""
    return Table(
        ("group", "name", "unit", *(each.id for each in view.experiments)),
        ((group.title, row.name, row.unit, *row.values) for group in view.groups for row in group.rows),
    )


PAGE = Page(
    name="compare",
    title="Compare",
    path=PATH,
    filters=CompareFilters,
    shows=ComparisonView,
    read=read,
    command=command,
    table=table,
    kinds=CHANGED_BY,
    lasts_s=ALWAYS_S,
)

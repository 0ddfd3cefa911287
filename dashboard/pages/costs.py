"""Costs: quote, estimate and actual time of experiments by campaign, target, day, outcome and lever, what
stopping early saved, the dollars of rented machines, and those of questions to a language model."""

from __future__ import annotations

from itertools import chain
from shlex import quote

from pydantic import Field
from sqlalchemy.orm import Session

from configs.quantities import format_usd
from dashboard.page import MOMENT_S, Filters, Ground, Page, Request, Table
from db.event_kinds import EventKind
from knowledge.queries.claims.model_answers import QuestionsRow, questions_by_model
from knowledge.queries.lookup import campaign_filter
from knowledge.queries.spent.costs import CostRow, CostsView, costs
from knowledge.queries.spent.money import MoneyRow
from knowledge.queries.spent.paid_runs import (
    BY_BILL,
    PaidRuns,
    PaidRunView,
    paid_runs,
    rented_targets,
    runs_now,
)


class CostsFilters(Filters):
    """Of which campaign; of all of them if not given."""

    campaign: str | None = Field(default=None, max_length=32, description="A campaign's label.")
    before: int | None = Field(
        default=None, ge=1, le=2**31 - 1, description="Runs on rented machines before this one's id."
    )


class CostsPageView(CostsView):
    """What was spent, as the page shows it. `in_flight` are the runs of every campaign that may still cost
    money, `known_targets` rented machines that a budget may be for; `can_end` is whether this server can ask
    providers; `questions` is what language models were asked."""

    runs: PaidRuns
    in_flight: tuple[PaidRunView, ...]
    known_targets: tuple[str, ...]
    can_end: bool
    questions: tuple[QuestionsRow, ...]

    @property
    def groups(self) -> tuple[tuple[str, str, tuple[CostRow, ...]], ...]:
        """Name, title and rows of each grouping."""
        return (
            ("campaign", "By campaign", self.campaigns),
            ("target", "By target", self.targets),
            ("day", "By day, UTC", self.days),
            ("outcome", "By outcome", self.outcomes),
            ("lever", "By lever", self.levers),
        )

    @property
    def paid(self) -> tuple[tuple[str, str, tuple[MoneyRow, ...]], ...]:
        """Name, title and rows of each grouping in dollars."""
        return (
            ("paid target", "Dollars by target", self.money.targets),
            ("paid day", "Dollars by day, UTC", self.money.days),
            ("paid campaign", "Dollars by campaign", self.money.campaigns),
        )

    @property
    def asks(self) -> int:
        """How many jobs wait for the user to approve their price."""
        return sum(each.needs_approval for each in self.money.waiting)

    @property
    def so_far_usd(self) -> float:
        """What the runs in flight may have cost by now."""
        return sum(each.so_far_usd or 0.0 for each in self.in_flight)

    @property
    def at_most_usd(self) -> float:
        """What they cost at most."""
        return sum(each.bound_usd for each in self.in_flight)

    @property
    def amount_words(self) -> str:
        """What rented machines and questions to a language model cost, as it stands in the sentence above."""
        total, asked = self.money.total, self.questions_usd
        told = []
        if total.runs:
            known = total.actual_usd + total.unknown_usd
            most = f", at most {format_usd(total.reserved_usd)} in flight" if total.open else ""
            told.append(f"{format_usd(known)} of rented machines ({total.rests_on}){most}")
        if asked is not None:
            told.append(f"{format_usd(asked)} of questions to a language model")
        return ", ".join(told) or "no money"

    @property
    def questions_usd(self) -> float | None:
        """What the questions with a price cost; None where none has one."""
        known = [each.usd for each in self.questions if each.usd is not None]
        return sum(known) if known else None

    def share(self, row: CostRow) -> float:
        """A row's part of all the time, in per cent."""
        return round(100 * row.spent_s / self.total.spent_s, 2) if self.total.spent_s else 0.0


def read(session: Session, request: Request[CostsFilters], ground: Ground) -> CostsPageView:
    """Read what was spent."""
    campaign_id = campaign_filter(session, request.filters.campaign)
    found = costs(session, campaign_id)
    runs = paid_runs(session, campaign_id, request.filters.before)
    return CostsPageView.model_construct(
        **dict(found),
        runs=runs,
        in_flight=tuple(each for each in runs.items if each.open)
        if campaign_id is None and request.filters.before is None
        else runs_now(session),
        known_targets=rented_targets(session),
        can_end=ground.executor is not None,
        questions=questions_by_model(session, campaign_id),
    )


def command(request: Request[CostsFilters]) -> str:
    """The nearest on the command line: the summary ends with what was spent."""
    campaign = request.filters.campaign
    return f"autoinfer summary --campaign {quote(campaign)}" if campaign else "autoinfer campaign list"


def table(view: CostsPageView) -> Table:
    """Every grouping in one table, in seconds, and those in dollars behind; then what language models were
    asked, a question as a run; then each run that is shown, with its quote, estimate and actual under the
    same names."""
    columns = ("by", *CostRow.model_fields)
    dollars = tuple(name for name in MoneyRow.model_fields if name != "name")
    nothing = (None,) * len(dollars)
    timed = (
        (by, *(getattr(each, name) for name in columns[1:]), *nothing)
        for by, _, rows in view.groups
        for each in rows
    )
    blank = (None,) * (len(columns) - 2)
    paid = (
        (by, each.name, *blank, *(getattr(each, name) for name in dollars))
        for by, _, rows in view.paid
        for each in rows
    )
    asked = (
        (
            "language model",
            f"{each.campaign} {each.model}",
            *blank,
            *(_of_questions(each).get(name) for name in dollars),
        )
        for each in view.questions
    )
    runs = (
        ("paid run", each.key, *blank, *(_of_run(each).get(name) for name in dollars), *_told(each))
        for each in view.runs.items
    )
    short = (None,) * len(RUN_COLUMNS)
    return Table(
        (*columns, *dollars, *RUN_COLUMNS),
        chain((row + short for row in chain(timed, paid, asked)), runs),
    )


RUN_COLUMNS = (
    *("job", "experiment", "hypothesis", "campaign", "target", "kind", "state", "since", "source", "limit_s"),
    *("gain", "usd_per_percent", "verdict", "effect", "paid_usd", "paid_per_percent"),
)
"""What the table tells of single runs alone."""


def _of_run(run: PaidRunView) -> dict[str, object]:
    """A run as a group of one."""
    return {
        "runs": 1,
        "open": int(run.open),
        "settled": int(run.actual_usd is not None),
        "billed": int(run.source == BY_BILL),
        "quoted_usd": run.bound_usd,
        "estimated_usd": run.expected_usd,
        "reserved_usd": run.bound_usd if run.open else 0.0,
        "actual_usd": run.actual_usd,
        "unknown_usd": run.bound_usd if not run.open and run.actual_usd is None else 0.0,
        "difference_usd": run.difference_usd,
    }


def _of_questions(row: QuestionsRow) -> dict[str, object]:
    """What one model was asked as a group of runs."""
    return {"runs": row.asked, "settled": row.priced, "wall_s": row.wall_s, "actual_usd": row.usd}


def _told(run: PaidRunView) -> tuple[object, ...]:
    found = run.model_dump(mode="json", include=set(RUN_COLUMNS))
    effect = None if run.effect is None else run.effect.relative
    return tuple(effect if name == "effect" else found[name] for name in RUN_COLUMNS)


PAGE = Page(
    name="costs",
    title="Costs",
    path="/costs",
    filters=CostsFilters,
    shows=CostsPageView,
    read=read,
    command=command,
    table=table,
    kinds=(
        EventKind.EXPERIMENT_STARTED,
        EventKind.EXPERIMENT_FAILED,
        EventKind.EXPERIMENT_JUDGED,
        EventKind.JOB_QUOTED,
        EventKind.JOB_HELD,
        EventKind.JOB_APPROVED,
        EventKind.JOB_CLAIMED,
        EventKind.JOB_CANCELLED,
        EventKind.JOB_SETTLED,
        EventKind.BUDGET_SET,
        EventKind.MODEL_ANSWERED,
        EventKind.MODEL_FAILED,
    ),
    lasts_s=MOMENT_S,
)

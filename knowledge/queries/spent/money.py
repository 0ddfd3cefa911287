"""What rented machines cost: quoted, estimated and actual dollars by campaign, target and day, what is left
of budgets, and what waits with its price; a fixed number of statements."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Integer, case, cast, func, select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Experiment, Hypothesis, Job, JobQuote, RemoteRun
from db.money import budgets, usd
from db.states import BudgetScope, JobState, RemoteRunState
from knowledge.figures import in_scale
from knowledge.queries.view import View
from knowledge.stored import number

EPOCH = date(1970, 1, 1)
"""The day that days are counted from."""

MOST_WAITING = 50
"""Waiting jobs told at most, the next ones."""

MOST_BASES = 5
"""Kinds of basis told at most, the newest."""

MONEY_BASIS = (
    "Dollars of rented machines. Quoted: the most that could have been billed. Estimated: what was expected "
    "when a run was submitted. Actual: what the executor told when it had ended, by the provider's bill or "
    "by time and rates; where it told nothing, the quote counts. The difference is actual less estimate, of "
    "runs with both."
)


class MoneyRow(View):
    """A group of runs on rented machines, US dollars. `open` are in flight, with `reserved_usd` at most;
    `settled` have ended with a known cost, `billed` of them by the provider's bill; `unknown_usd` is what
    counts for those that ended without one. `difference_usd` is actual less estimate, of the settled."""

    name: str
    runs: int = 0
    open: int = 0
    settled: int = 0
    billed: int = 0
    wall_s: float = 0.0
    quoted_usd: float = 0.0
    estimated_usd: float = 0.0
    reserved_usd: float = 0.0
    actual_usd: float = 0.0
    unknown_usd: float = 0.0
    difference_usd: float = 0.0

    @property
    def rests_on(self) -> str:
        """What the actual amount rests on, as a clause."""
        by_time, unknown = self.settled - self.billed, self.runs - self.open - self.settled
        told = [
            f"{count} {what}"
            for count, what in (
                (self.billed, "by the provider's bill"),
                (by_time, "by time and rates"),
                (unknown, "not told"),
            )
            if count
        ]
        return ", ".join(told) or "nothing has ended"


class BudgetView(View):
    """A budget in dollars; `left_usd` may be below zero where a provider billed more than it quoted."""

    id: int
    scope: str
    name: str
    words: str
    limit_usd: float
    spent_usd: float
    reserved_usd: float
    left_usd: float
    approve_above_usd: float | None
    version: str

    @property
    def label(self) -> str:
        """The target, or the campaign's label; nothing for days."""
        return (
            format_label(Noun.CAMPAIGN, int(self.name)) if self.scope == BudgetScope.CAMPAIGN else self.name
        )

    @property
    def title(self) -> str:
        """Whose budget it is, in a word or two."""
        return {BudgetScope.DAY: "Every day, UTC"}.get(BudgetScope(self.scope), self.label)

    @property
    def bar(self) -> tuple[float, float]:
        """Spent, and reserved behind it, as parts of the limit in thousandths; never beyond it."""
        whole = self.limit_usd or self.spent_usd + self.reserved_usd or 1.0
        spent = min(1000.0, 1000 * self.spent_usd / whole)
        return round(spent, 1), round(min(1000.0 - spent, 1000 * self.reserved_usd / whole), 1)


class PricedJobView(View):
    """A job that waits with its price. `gain` is the share of its metric that its hypothesis expects to gain,
    None where it claims none; `usd_per_percent` the expected price of each per cent of it."""

    job: str
    experiment: str | None
    campaign: str | None
    claim: str | None
    target: str
    expected_usd: float
    bound_usd: float
    basis: str
    why: str | None
    needs_approval: bool
    gain: float | None
    usd_per_percent: float | None


class MoneyView(View):
    """Everything in dollars; `bases` are what the newest quotes rest on."""

    total: MoneyRow
    campaigns: tuple[MoneyRow, ...] = ()
    targets: tuple[MoneyRow, ...] = ()
    days: tuple[MoneyRow, ...] = ()
    budgets: tuple[BudgetView, ...] = ()
    waiting: tuple[PricedJobView, ...] = ()
    bases: tuple[str, ...] = ()
    basis: str = MONEY_BASIS


def money(session: Session, campaign_id: int | None = None) -> MoneyView:
    """What the runs of a campaign, or of all, cost."""
    return MoneyView(
        total=next(iter(_rows(session, campaign_id, None, str)), MoneyRow(name="all")),
        campaigns=_rows(session, campaign_id, RemoteRun.campaign_id, _campaign),
        targets=_rows(session, campaign_id, RemoteRun.target, str),
        days=tuple(
            sorted(
                _rows(
                    session, campaign_id, RemoteRun.day, lambda day: (EPOCH + timedelta(days=day)).isoformat()
                ),
                key=lambda row: row.name,
                reverse=True,
            )
        ),
        budgets=_budgets(session),
        waiting=_waiting(session, campaign_id),
        bases=_bases(session, campaign_id),
    )


def by_target(session: Session) -> tuple[MoneyRow, ...]:
    """Dollars by target alone, of all campaigns."""
    return _rows(session, None, RemoteRun.target, str)


def budget_views(session: Session) -> tuple[BudgetView, ...]:
    """The budgets alone."""
    return _budgets(session)


def worth(hypothesis: Hypothesis | None, expected_usd: float) -> tuple[float | None, float | None]:
    """The gain that a hypothesis expects, as a share of its metric or as a difference of shares, and the
    expected price of each per cent, or point, of it; None of a job that tests none. Pure."""
    mean = None if hypothesis is None else number((hypothesis.prediction or {}).get("log_ratio_mean"))
    if hypothesis is None or mean is None:
        return None, None
    gain = -in_scale(mean, hypothesis.metric)
    return gain, expected_usd / (100 * gain) if gain > 0 else None


def _rows(
    session: Session, campaign_id: int | None, key: Any, name: Callable[[Any], str]
) -> tuple[MoneyRow, ...]:
    ended = RemoteRun.state == RemoteRunState.ENDED
    told = ended & RemoteRun.actual_microusd.is_not(None)
    actual = func.coalesce(RemoteRun.actual_microusd, 0)

    def total(of: Any, when: ColumnElement[bool] | None = None) -> ColumnElement[Any]:
        return func.coalesce(func.sum(of if when is None else case((when, of), else_=0)), 0)

    query = select(
        key if key is not None else func.min(RemoteRun.executor),
        func.count(),
        total(1, ~ended),
        total(1, told),
        total(cast(RemoteRun.billed, Integer), told),
        total(RemoteRun.actual_s),
        total(RemoteRun.reserved_microusd),
        total(RemoteRun.expected_microusd),
        total(RemoteRun.reserved_microusd, ~ended),
        total(actual, told),
        total(RemoteRun.reserved_microusd, ended & RemoteRun.actual_microusd.is_(None)),
        total(actual - RemoteRun.expected_microusd, told),
    )
    if campaign_id is not None:
        query = query.where(RemoteRun.campaign_id == campaign_id)
    if key is not None:
        query = query.group_by(key)
    rows = [
        MoneyRow(
            name="all" if key is None else name(row[0]),
            runs=row[1],
            open=row[2],
            settled=row[3],
            billed=row[4],
            wall_s=float(row[5]),
            **{field: usd(int(row[6 + place])) for place, field in enumerate(_AMOUNTS)},
        )
        for row in session.execute(query)
        if row[1]
    ]
    return tuple(sorted(rows, key=lambda row: (-row.actual_usd - row.reserved_usd, row.name)))


_AMOUNTS = ("quoted_usd", "estimated_usd", "reserved_usd", "actual_usd", "unknown_usd", "difference_usd")


def _campaign(campaign_id: int | None) -> str:
    return "no campaign" if campaign_id is None else format_label(Noun.CAMPAIGN, campaign_id)


def _budgets(session: Session) -> tuple[BudgetView, ...]:
    return tuple(
        BudgetView(
            id=each.id,
            scope=each.scope.value,
            name=each.name,
            words=each.words,
            limit_usd=usd(each.limit),
            spent_usd=usd(each.spent),
            reserved_usd=usd(each.reserved),
            left_usd=usd(each.left),
            approve_above_usd=None if each.approve_above is None else usd(each.approve_above),
            version=each.version,
        )
        for each in budgets(session)
    )


def _waiting(session: Session, campaign_id: int | None) -> tuple[PricedJobView, ...]:
    query = (
        select(JobQuote, Job.experiment_id, Job.campaign_id, Hypothesis)
        .join(Job, Job.id == JobQuote.job_id)
        .outerjoin(Experiment, Experiment.id == Job.experiment_id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .where(Job.state == JobState.QUEUED)
        .order_by(Job.priority, Job.seq, Job.id)
        .limit(MOST_WAITING)
    )
    if campaign_id is not None:
        query = query.where(Job.campaign_id == campaign_id)
    found = []
    for quote, experiment_id, its_campaign_id, hypothesis in session.execute(query):
        expected_usd = usd(quote.expected_microusd)
        gain, each = worth(hypothesis, expected_usd)
        found.append(
            PricedJobView(
                job=format_label(Noun.JOB, quote.job_id),
                experiment=None if experiment_id is None else format_label(Noun.EXPERIMENT, experiment_id),
                campaign=None if its_campaign_id is None else format_label(Noun.CAMPAIGN, its_campaign_id),
                claim=None if hypothesis is None else hypothesis.claim,
                target=quote.target,
                expected_usd=expected_usd,
                bound_usd=usd(quote.bound_microusd),
                basis=quote.basis,
                why=quote.waits_because,
                needs_approval=quote.needs_approval,
                gain=gain,
                usd_per_percent=each,
            )
        )
    return tuple(found)


def _bases(session: Session, campaign_id: int | None) -> tuple[str, ...]:
    newest = func.max(RemoteRun.id)
    query = select(RemoteRun.basis).group_by(RemoteRun.basis).order_by(newest.desc()).limit(MOST_BASES)
    if campaign_id is not None:
        query = query.where(RemoteRun.campaign_id == campaign_id)
    return tuple(session.scalars(query))

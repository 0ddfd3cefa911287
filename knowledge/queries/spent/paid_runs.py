"""Every run on rented machines: what it was quoted, expected and cost, what its test was expected to gain and
what it brought; and which of them may still cost money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, case, func, or_, select, type_coerce
from sqlalchemy.orm import Session

from configs.quantities import format_usd
from configs.targets import is_rented
from db.at_work import at_work
from db.clock import now
from db.labels import Noun, format_label
from db.models import Experiment, Hypothesis, Job, JobQuote, MoneyBudget, RemoteRun, Verdict
from db.money import usd
from db.states import BudgetScope, RemoteRunState, VerdictOutcome
from knowledge.queries.spent.money import EPOCH, worth
from knowledge.queries.view import EffectView, View, verdict_effect

MOST_RUNS = 100
"""Ended runs told on a page, the newest; those in flight are told all."""

BY_BILL, BY_TIME, NOT_TOLD = "the provider's bill", "time and rates", "not told: the quote counts"
"""What an actual amount rests on."""


class PaidRunView(View):
    """One run, US dollars. `state` is where it stands, or how it ended, `since` when that began.

    `limit_s` is the limit of its whole job, None for those of its stages. `actual_usd` is None until it has
    ended and its executor told; `source` says what it rests on. `so_far_usd` is what a run in flight may have
    cost by now, by its quote's rate: an estimate. `attended` is whether a worker looks after it.

    `gain` is the share of its metric that its hypothesis is expected to gain, `usd_per_percent` what each per
    cent of that is expected to cost. `verdict` and `effect` are what the test said; `paid_usd` is what all
    runs of its experiment cost, `paid_per_percent` that for each per cent that it gained where it is
    supported.
    """

    id: int
    job: str
    key: str
    campaign: str | None
    experiment: str | None
    hypothesis: str | None
    claim: str | None
    kind: str
    executor: str
    target: str
    state: str
    open: bool
    attended: bool
    since: datetime
    day: str
    limit_s: float | None
    bound_usd: float
    expected_usd: float
    so_far_usd: float | None
    actual_usd: float | None
    difference_usd: float | None
    source: str | None
    basis: str
    gain: float | None
    usd_per_percent: float | None
    verdict: str | None
    effect: EffectView | None
    paid_usd: float | None
    paid_per_percent: float | None


class PaidRuns(View):
    """Runs in flight, all of them, and `ended` ones, newest first from before the run `before` on; `total`
    counts all that match, `older` is the `before` of the next ones, None where these are the last."""

    items: tuple[PaidRunView, ...]
    total: int
    older: int | None


class Unattended(View):
    """Runs that may still cost money and that no worker looks after: how many, and US dollars at most."""

    runs: int
    bound_usd: float

    @property
    def sentence(self) -> str:
        """What to know."""
        one = self.runs == 1
        return (
            f"{self.runs} {'run' if one else 'runs'} on rented machines may still cost money, "
            f"{format_usd(self.bound_usd)} at most, and no worker looks after {'it' if one else 'them'}."
        )


END = "autoinfer stop --remote"
"""The command that ends everything that is paid for."""


def runs_in_flight(session: Session) -> int:
    """How many runs may still cost money."""
    query = select(func.count()).where(RemoteRun.state != RemoteRunState.ENDED)
    return int(session.execute(query).scalar_one())


def unattended(session: Session) -> Unattended | None:
    """The runs in flight whose worker is gone: its lease ran out, or its job does not run; None for none."""
    query = (
        select(func.count(), func.coalesce(func.sum(RemoteRun.reserved_microusd), 0))
        .join(Job, Job.id == RemoteRun.job_id)
        .where(RemoteRun.state != RemoteRunState.ENDED, ~at_work())
    )
    runs, bound = session.execute(query).one()
    return Unattended(runs=runs, bound_usd=usd(int(bound))) if runs else None


def paid_runs(session: Session, campaign_id: int | None = None, before: int | None = None) -> PaidRuns:
    """The runs of a campaign, or of all."""
    ours: list[ColumnElement[bool]] = [] if campaign_id is None else [RemoteRun.campaign_id == campaign_id]
    is_open = RemoteRun.state != RemoteRunState.ENDED
    total = session.execute(select(func.count()).select_from(RemoteRun).where(*ours)).scalar_one()
    if not total:
        return PaidRuns(items=(), total=0, older=None)
    flying = _read(session, [*ours, is_open], None) if before is None else []
    past = [*ours, ~is_open, *([] if before is None else [RemoteRun.id < before])]
    ended = _read(session, past, MOST_RUNS + 1)
    shown = ended[:MOST_RUNS]
    rows = [*flying, *shown]
    paid = _paid(session, {row[0].experiment_id for row in rows if row[0].experiment_id is not None})
    return PaidRuns(
        items=tuple(_view(row, paid) for row in rows),
        total=total,
        older=shown[-1][0].id if len(ended) > MOST_RUNS else None,
    )


def rented_targets(session: Session) -> tuple[str, ...]:
    """Rented machines that runs, budgets or campaigns named so far, by name."""
    named = (
        select(RemoteRun.target),
        select(MoneyBudget.name).where(MoneyBudget.scope == BudgetScope.TARGET),
        select(Job.device_class),
        select(JobQuote.target),
    )
    return tuple(
        sorted({each for query in named for each in session.scalars(query.distinct()) if is_rented(each)})
    )


def runs_now(session: Session) -> tuple[PaidRunView, ...]:
    """All runs in flight, of every campaign."""
    return tuple(_view(row, {}) for row in _read(session, [RemoteRun.state != RemoteRunState.ENDED], None))


def _read(session: Session, where: Sequence[ColumnElement[bool]], most: int | None) -> list[Any]:
    age_ms = type_coerce(now(), BigInteger) - type_coerce(RemoteRun.created_at, BigInteger)
    query = (
        select(RemoteRun, Hypothesis, Verdict, case((at_work(), 1), else_=0), age_ms)
        .join(Job, Job.id == RemoteRun.job_id)
        .outerjoin(Experiment, Experiment.id == RemoteRun.experiment_id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .outerjoin(Verdict, Verdict.experiment_id == RemoteRun.experiment_id)
        .where(*where)
        .order_by(RemoteRun.id.desc())
    )
    return list(session.execute(query if most is None else query.limit(most)).all())


def _paid(session: Session, experiments: set[int]) -> Mapping[int, float]:
    """What the runs of experiments cost, by the id of those whose runs have all ended with a known cost."""
    unknown = or_(RemoteRun.state != RemoteRunState.ENDED, RemoteRun.actual_microusd.is_(None))
    query = (
        select(RemoteRun.experiment_id, func.sum(RemoteRun.actual_microusd))
        .where(RemoteRun.experiment_id.in_(experiments))
        .group_by(RemoteRun.experiment_id)
        .having(func.sum(case((unknown, 1), else_=0)) == 0)
    )
    return {row[0]: usd(int(row[1] or 0)) for row in session.execute(query) if row[0] is not None}


def _view(row: Any, paid: Mapping[int, float]) -> PaidRunView:
    run, hypothesis, verdict, attended, age_ms = row
    is_open = run.state is not RemoteRunState.ENDED
    expected_usd, bound_usd = usd(run.expected_microusd), usd(run.reserved_microusd)
    actual = None if run.actual_microusd is None else usd(run.actual_microusd)
    rate = run.expected_microusd / run.expected_s if run.expected_s else 0.0
    gain, each = worth(hypothesis, expected_usd)
    effect = None if verdict is None else verdict_effect(verdict)
    total = paid.get(run.experiment_id)
    brought = None
    if verdict is not None and verdict.outcome is VerdictOutcome.SUPPORTED and effect is not None:
        brought = -100 * effect.relative
    return PaidRunView(
        id=run.id,
        job=format_label(Noun.JOB, run.job_id),
        key=run.key,
        campaign=_label(Noun.CAMPAIGN, run.campaign_id),
        experiment=_label(Noun.EXPERIMENT, run.experiment_id),
        hypothesis=None if hypothesis is None else format_label(Noun.HYPOTHESIS, hypothesis.id),
        claim=None if hypothesis is None else hypothesis.claim,
        kind=run.kind,
        executor=run.executor,
        target=run.target,
        state=run.state.value if is_open else run.outcome or run.state.value,
        open=is_open,
        attended=bool(attended),
        since=(run.submitted_at or run.created_at) if is_open else (run.ended_at or run.created_at),
        day=(EPOCH + timedelta(days=run.day)).isoformat(),
        limit_s=run.limit_s,
        bound_usd=bound_usd,
        expected_usd=expected_usd,
        so_far_usd=min(bound_usd, usd(round(rate * age_ms / 1000))) if is_open else None,
        actual_usd=actual,
        difference_usd=None if actual is None else actual - expected_usd,
        source=None if is_open else NOT_TOLD if actual is None else BY_BILL if run.billed else BY_TIME,
        basis=run.basis,
        gain=gain,
        usd_per_percent=each,
        verdict=None if verdict is None else verdict.outcome.value,
        effect=effect,
        paid_usd=total,
        paid_per_percent=None if total is None or not brought or brought <= 0 else total / brought,
    )


def _label(noun: Noun, number: int | None) -> str | None:
    return None if number is None else format_label(noun, number)

"""From a waiting job to one that may be submitted: quoted, its bound reserved, its key stored; or held.

Claim, budgets, reservation and intent are one transaction: a job that is claimed has its price reserved, and
what is reserved has a key by which it is found again.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.quantities import format_usd
from db import events, money, queue, workers
from db.agreed_prices import agreed_usd_per_s
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Job, JobQuote
from db.remote_runs import Run, intend
from db.session import Database
from db.states import JobState, WorkerState
from experiments.executors.port import Executor
from experiments.job.spec import SPEC_VERSION, parse_job
from experiments.remote.limiting import PlannedSeconds, unplanned
from experiments.remote.quoting import Price, known_of
from experiments.remote.settings import RemoteTimes
from experiments.worker.claiming import Taken, run_key, tell_claimed
from experiments.worker.reaping import experiment_label
from experiments.worker.settings import WorkerName

_LOG = logging.getLogger(__name__)

LOOKS_AHEAD = 50
"""Waiting jobs that are looked at: one whose price has no room lets a cheaper one behind it go first."""


@dataclass(frozen=True)
class Waiting:
    """A job of the queue as it was read."""

    id: int
    kind: str
    campaign_id: int | None
    experiment_id: int | None


class Dispatcher:
    """Takes jobs for one target, of one campaign or of all.

    The quotes of jobs that wait are kept for `quote_lasts_s`, since asking for one may be slow; a job is
    claimed by a fresh one.
    """

    def __init__(
        self,
        database: Database,
        executor: Executor,
        name: WorkerName,
        times: RemoteTimes,
        worker_id: int,
        campaign_id: int | None = None,
        *,
        planned_s: PlannedSeconds = unplanned,
    ) -> None:
        self._database = database
        self._executor = executor
        self._name = name
        self._times = times
        self._worker_id = worker_id
        self._campaign_id = campaign_id
        self._planned_s = planned_s
        self._prices: dict[int, tuple[float, Price]] = {}
        self._of_other_versions: set[int] = set()

    def take(self) -> tuple[Taken, Run | None] | None:
        """Claim the next job that has a price within its budgets; None when there is none.

        The run is None for a job whose spec can't be read, which is claimed to be failed. Raises
        `ProviderUnreachable` where the executor can't quote.
        """
        for job in self._waiting():
            taken = self._take(job)
            if taken is not None:
                self._prices.pop(job.id, None)
                return taken
        return None

    def _waiting(self) -> list[Waiting]:
        query = (
            select(Job.id, Job.kind, Job.campaign_id, Job.experiment_id)
            .where(Job.state == JobState.QUEUED, Job.device_class == self._name.device)
            .order_by(Job.priority, Job.seq, Job.id)
            .limit(LOOKS_AHEAD)
        )
        if self._campaign_id is not None:
            query = query.where(Job.campaign_id == self._campaign_id)
        with self._database.read() as session:
            return [Waiting(*row) for row in session.execute(query)]

    def _take(self, job: Waiting) -> tuple[Taken, Run | None] | None:
        price = self._price(job, self._times.quote_lasts_s)
        if job.id in self._of_other_versions:
            return None
        if price is not None and self._is_still_held(job, price):
            return None
        price = self._price(job, self._times.fresh_s)
        with self._database.write() as session:
            if price is not None and not self._may_be_paid(session, job, price):
                return None
            device = f"{self._name.device}/{format_label(Noun.JOB, job.id)}"
            claimed = queue.claim_one(session, job.id, self._name.owner, device, self._times.lease_s)
            if claimed is None:
                return None
            created_at = session.execute(select(Job.created_at).where(Job.id == job.id)).scalar_one()
            taken = Taken(claimed, run_key(self._database, job.id, created_at, claimed.attempt))
            run = None
            if price is not None:
                run = intend(
                    session,
                    claimed,
                    executor=self._executor.name,
                    target=self._name.device,
                    key=taken.key,
                    expected_s=price.expected_s,
                    expected=price.expected,
                    bound=price.bound,
                    basis=price.basis,
                    limit_s=price.limit_s,
                )
            workers.beat(session, self._worker_id, WorkerState.BUSY)
            tell_claimed(session, taken)
            if price is not None:
                _tell(session, job, EventKind.JOB_QUOTED, f"is reserved {_words(price)}.", price)
        return taken, run

    def _price(self, job: Waiting, within_s: float) -> Price | None:
        """What the job costs, by a quote no older than `within_s`; None for a spec that can't be read, or is
        for workers of another version."""
        if job.id in self._of_other_versions:
            return None
        kept = self._prices.get(job.id)
        if kept is not None and time.monotonic() - kept[0] < within_s:
            return kept[1]
        with self._database.read() as session:
            data = session.execute(select(Job.spec).where(Job.id == job.id)).scalar_one()
        if data.get("version") != SPEC_VERSION:
            self._of_other_versions.add(job.id)
            label, version = format_label(Noun.JOB, job.id), data.get("version")
            _LOG.warning("%s is of version %s, and is left to a worker of that version.", label, version)
            return None
        try:
            spec = parse_job(data)
        except ValueError:
            return None
        with self._database.read() as session:
            known = known_of(session, spec, self._name.device, self._planned_s)
        price = known.price(self._executor.quote(spec, known.limit_s))  # no session waits for a network
        self._prices[job.id] = (time.monotonic(), price)
        return price

    def _is_still_held(self, job: Waiting, price: Price) -> bool:
        """Whether the job is held for what it would be held for now, by reading alone: a held job must not
        cost a write at every look."""
        with self._database.read() as session:
            row = session.get(JobQuote, job.id)
            if row is None or row.waits_because is None or row.bound_microusd != price.bound:
                return False
            standings = money.covering(session, job.campaign_id, self._name.device)
            why, _ = self._refusal(session, job, price, standings, row.approved_microusd)
            return why == row.waits_because

    def _refusal(
        self,
        session: Session,
        job: Waiting,
        price: Price,
        standings: list[money.BudgetStanding],
        approved: int | None,
    ) -> tuple[str | None, bool]:
        """Why it may not be submitted for that price, and whether the user's approval would help."""
        target = self._name.device
        agreed = agreed_usd_per_s(session, job.campaign_id, target)
        as_told = None if agreed is None else money.microusd(agreed * price.bound_s)
        return money.refusal(standings, target, price.bound, approved, as_told)

    def _may_be_paid(self, session: Session, job: Waiting, price: Price) -> bool:
        """Keep the quote, and say whether the budgets have room for it and the user need not be asked."""
        standings = money.covering(session, job.campaign_id, self._name.device, lock=True)
        row = session.get(JobQuote, job.id)
        approved = None if row is None else row.approved_microusd
        why, ask = self._refusal(session, job, price, standings, approved)
        before = None if row is None else row.waits_because
        kept = row or JobQuote(job_id=job.id)
        kept.target, kept.basis = self._name.device, price.basis
        kept.expected_s, kept.bound_s = price.expected_s, price.bound_s
        kept.expected_microusd, kept.bound_microusd = price.expected, price.bound
        kept.waits_because, kept.needs_approval = why, ask
        if row is None:
            session.add(kept)
        if why is None:
            return True
        if why != before:
            label = format_label(Noun.JOB, job.id)
            how = f" Approve it with: autoinfer approve {label}" if ask else ""
            _tell(session, job, EventKind.JOB_HELD, f"waits. {why}{how}", price)
        return False


def _words(price: Price) -> str:
    return f"{format_usd(price.bound_usd)} at most, expected {format_usd(price.expected_usd)} ({price.basis})"


def _tell(session: Session, job: Waiting, kind: EventKind, what: str, price: Price) -> None:
    label = format_label(Noun.JOB, job.id)
    subject = experiment_label(job.experiment_id) or label
    data = {"bound_usd": price.bound_usd, "expected_usd": price.expected_usd, "basis": price.basis}
    session.flush()
    events.append(session, kind, f"{label} {what}", subject, job.campaign_id, data)

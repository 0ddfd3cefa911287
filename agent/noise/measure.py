"""Driving an A/A series: one pair after the other through the queue, until all that were asked for are there.

The series is held under a campaign's lease, so that two commands don't measure one series. Whatever is
killed, the same command goes on with the first pair that is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.hold import Hold
from agent.campaign.resources.waiting import nobody_takes
from agent.campaign.resources.worker_process import WorkerProcess
from agent.noise.series import AaAsked, PairRow, dispatch_pair, next_pair, pairs_of, read_series
from configs.campaign import CampaignSpec
from configs.errors import AutoinferError, LeaseLost
from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Job
from db.session import Database
from db.states import CampaignState, ExperimentState, JobState
from experiments.worker.cancelling import cancel
from experiments.worker.reaping import reap
from experiments.worker.settings import WorkerName

BUSY_AFTER_S = 5.0
"""How long a pair may wait before it is said what it waits for: a worker starts in 2 s."""


POLL_S = 0.5
"""How often to look while a pair is measured: rarely, because the look takes time from the machine."""


@dataclass(frozen=True)
class Progress:
    """What there is to tell: pairs measured of those asked for, the experiment of the last one, or a sentence
    on what is waited for."""

    done: int
    planned: int
    experiment_id: int | None = None
    waits: str | None = None


@dataclass(frozen=True)
class _Seen:
    """A series at one look."""

    state: CampaignState
    spec: CampaignSpec
    asked: AaAsked
    rows: list[PairRow]


class SeriesLoop:
    """Drives one series; `run` returns when all pairs are there, or the user stopped it.

    `worker` is kept alive when it is given; without it, workers started elsewhere take the jobs. `wait`
    sleeps for seconds; `tell` is called with each piece of news.
    """

    def __init__(
        self,
        database: Database,
        series_id: int,
        *,
        worker: WorkerProcess | None,
        tell: Callable[[Progress], None] = lambda progress: None,
        lease_s: float = 30.0,
        poll_s: float = POLL_S,
        wait: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._id = series_id
        self._worker = worker
        self._tell = tell
        self._poll_s = poll_s
        self._wait = wait
        self._clock = clock
        self._hold = Hold(database, series_id, lease_s, clock)
        self._dispatched_at = 0.0
        self._waits: str | None = None

    def run(self) -> None:
        """Measure what is missing. Raises `LeaseLost` when another command measures the series, and
        `AutoinferError` when a pair could not be measured; what was measured before is kept."""
        self._take_over()
        try:
            before = self._look()
            told = {row.pair for row in before.rows if row.measured}
            ended_before = {row.experiment_id for row in before.rows if not row.open}
            while True:
                self._hold.keep(self._beside_the_lease)
                if self._worker is not None:
                    self._worker.keep_alive()
                seen = self._look()
                _raise_failures([row for row in seen.rows if row.experiment_id not in ended_before])
                self._tell_new(seen, told)
                if any(row.open for row in seen.rows) or seen.state is CampaignState.PAUSED:
                    self._tell_what_it_waits_for()
                    self._wait(self._poll_s)
                elif self._step(seen):
                    return
        finally:
            self._leave()

    def _look(self) -> _Seen:
        with self._database.read() as session:
            spec, asked = read_series(session, self._id)
            state = session.get_one(Campaign, self._id).state
            return _Seen(state, spec, asked, pairs_of(session, self._id))

    def _step(self, seen: _Seen) -> bool:
        """Begin the next pair, or end; true when the series has ended."""
        pair = next_pair(seen.rows, seen.asked)
        if seen.state in (CampaignState.STOPPING, CampaignState.STOPPED):
            self._end("the user stopped it")
        elif pair is None:
            self._end(f"{seen.asked.launches} launches were measured")
        else:
            with self._hold.writing() as session:
                dispatch_pair(session, self._id, seen.spec, seen.asked, pair)
            self._dispatched_at = self._clock()
            return False
        return True

    def _take_over(self) -> None:
        with self._database.write() as session:
            if not self._hold.take(session):
                label = format_label(Noun.CAMPAIGN, self._id)
                raise LeaseLost(
                    f"Another command measures {label} now.",
                    "Follow it with: autoinfer log --follow; or start another with: autoinfer aa --new",
                )
        self._dispatched_at = self._clock()

    def _tell_new(self, seen: _Seen, told: set[int]) -> None:
        done = len({row.pair for row in seen.rows if row.measured})
        for row in seen.rows:
            if row.measured and row.pair not in told:
                told.add(row.pair)
                self._waits = None
                self._tell(Progress(done, seen.asked.pairs, experiment_id=row.experiment_id))
                if self._worker is not None:
                    self._worker.did_well()

    def _tell_what_it_waits_for(self) -> None:
        if self._clock() - self._dispatched_at < BUSY_AFTER_S:
            return
        with self._database.read() as session:
            waits = _waits_for(session, self._id, own_worker=self._worker is not None)
        if waits is not None and waits != self._waits:
            self._waits = waits
            self._tell(Progress(0, 0, waits=waits))

    def _beside_the_lease(self, session: Session) -> None:
        """What is done each time the lease is renewed."""
        if self._worker is None:
            reap(session)  # nobody else may be there to notice a worker that died

    def _end(self, reason: str) -> None:
        with self._hold.writing() as session:
            series = session.get_one(Campaign, self._id)
            series.state = CampaignState.STOPPED
            series.stopped_because = reason
            series.ended_at = now()
            label = format_label(Noun.CAMPAIGN, self._id)
            text = f"The A/A series ended: {reason}"
            events.append(session, EventKind.CAMPAIGN_STOPPED, text, label, self._id)

    def _leave(self) -> None:
        """End the worker, take what still waits out of the queue, and let go of the series."""
        if self._worker is not None:
            self._worker.stop()
        with self._database.write() as session:
            query = select(Job.id).where(Job.campaign_id == self._id, Job.state == JobState.QUEUED)
            for job_id in session.scalars(query).all():
                cancel(session, job_id, "The series was interrupted before this pair was measured.")
            self._hold.release(session)


def _raise_failures(rows: list[PairRow]) -> None:
    for row in rows:
        if row.failure is not None and row.state is not ExperimentState.CANCELLED:
            label = format_label(Noun.EXPERIMENT, row.experiment_id)
            raise AutoinferError(
                f"Pair {row.pair + 1} could not be measured: {row.failure}",
                f"What was measured before is kept. See it with autoinfer show {label}; the same command "
                "goes on.",
            )


def _waits_for(session: Session, series_id: int, *, own_worker: bool) -> str | None:
    """What keeps the pair of a series from being measured, in a sentence; None when it runs."""
    waiting = select(Job).where(Job.campaign_id == series_id, Job.state == JobState.QUEUED)
    job = session.scalars(waiting.limit(1)).first()
    if job is None:
        return None
    device = WorkerName.here(job.device_class).device_key
    other = session.scalars(
        select(Job).where(Job.state == JobState.RUNNING, Job.device == device, Job.campaign_id != series_id)
    ).first()
    if other is not None:
        what = (
            format_label(Noun.JOB, other.id)
            if other.experiment_id is None
            else format_label(Noun.EXPERIMENT, other.experiment_id)
        )
        whose = "" if other.campaign_id is None else f" of {format_label(Noun.CAMPAIGN, other.campaign_id)}"
        return f"{what}{whose} runs on {device}; a device runs one job at a time, so this one waits"
    unserved = None if own_worker else nobody_takes(session, series_id)
    if unserved is not None:
        return f"no worker takes jobs for {unserved}; start one with: autoinfer worker --device {unserved}"
    return None

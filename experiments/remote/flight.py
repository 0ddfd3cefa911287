"""One job in flight on a remote target: what its worker keeps of it, and how its end is settled."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy.orm import Session

from configs.quantities import format_duration, format_usd
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.money import microusd, usd
from db.remote_runs import Run, settle
from db.session import Database
from experiments.executors.port import Cost
from experiments.job.longest import limit_sentence
from experiments.job.spec import AnyJob
from experiments.remote.extras import ExtrasCopy
from experiments.remote.got_gpu import GotGpu
from experiments.remote.logs import LogCopy
from experiments.remote.settings import RemoteTimes
from experiments.telemetry.keeping import keep
from experiments.worker.claiming import Taken, parse_taken
from experiments.worker.reporting import TIMED_OUT, Reporter, RunOutcome


class Flight:
    """A taken job and its run; `ref` None until it is submitted, or found again by its key."""

    def __init__(
        self,
        database: Database,
        taken: Taken,
        run: Run,
        times: RemoteTimes,
        worker_id: int,
        logs_root: Path | None,
    ) -> None:
        self.taken = taken
        self.run = run
        self.ref = run.ref
        self.cost: Cost | None = None
        self.asked = True
        """Whether it may have been submitted: a worker that has just written its intent knows better."""
        self.reporter = Reporter(database, taken, times.as_worker, worker_id, self._settle)
        self.log = None if logs_root is None else LogCopy(logs_root, run.key)
        self.extras = None
        if logs_root is not None:
            self.extras = ExtrasCopy(logs_root, run.key, run.target, format_label(Noun.JOB, run.job_id))
        self.got: tuple[GotGpu, ...] = ()
        """The GPUs that its result was measured on, as far as anybody told."""
        self.polled = 0
        self._began = time.monotonic() - run.age_s

    @property
    def fence(self) -> tuple[int, int]:
        """Job and attempt, as the queue tells who holds what."""
        return self.taken.job.id, self.taken.job.attempt

    @property
    def age_s(self) -> float:
        """Seconds since it was intended."""
        return time.monotonic() - self._began

    def spec(self) -> AnyJob:
        """The job's spec; raises `ValueError` in a sentence for one that can't be read."""
        return parse_taken(self.taken)

    def reached_limit(self, said: str | None) -> None:
        """The run was ended at its limit. With one beside those of its stages the job goes back to its place,
        for the next one is longer; without, trying again would give the same."""
        limit_s = self.run.limit_s
        if limit_s is None:
            self.reporter.fail(TIMED_OUT, said or "The run reached the limits of its stages.")
            return
        cause = f"{said or limit_sentence(limit_s)} The next attempt may take longer, and is quoted so."
        self.reporter.give_up(cause, RunOutcome.TIMED_OUT)

    def _settle(self, session: Session, outcome: RunOutcome) -> None:
        """In the transaction that ends the job or gives it back."""
        if self.extras is not None:
            keep(session, self.extras.take_means(last=True))
        got = [each.words for each in self.got]
        campaign_id, subject = self.taken.job.campaign_id, self.taken.subject
        settle_run(session, self.run, outcome.value, self.cost, campaign_id, subject, got)


def settle_run(
    session: Session,
    run: Run,
    outcome: str,
    cost: Cost | None,
    campaign_id: int | None,
    subject: str | None,
    got: Sequence[str] = (),
) -> None:
    """Settle a run against its quote, with the event; `cost` None where the provider could not tell it, `got`
    the GPUs that it ran on in words."""
    actual = None if cost is None else microusd(cost.usd)
    took_s, billed = (None, False) if cost is None else (cost.wall_s, cost.billed)
    if not settle(session, run.id, outcome, took_s, actual, billed=billed):
        return
    label = format_label(Noun.JOB, run.job_id)
    most = format_usd(usd(run.reserved))
    if cost is None or actual is None:
        text = f"{label}: what its run cost is not known, so the {most} that it was quoted at most count."
    else:
        rests_on = "by the provider's bill" if cost.billed else "by time and rates"
        text = (
            f"{label} cost {format_usd(usd(actual))} {rests_on} in {format_duration(round(cost.wall_s))}; "
            f"quoted {most} at most."
        )
    data = {
        "outcome": outcome,
        "actual_usd": None if actual is None else usd(actual),
        "bound_usd": usd(run.reserved),
        "asked": run.target,
        "got": list(got),
    }
    events.append(session, EventKind.JOB_SETTLED, text, subject or label, campaign_id, data)

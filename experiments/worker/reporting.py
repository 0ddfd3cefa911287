"""What a worker writes while a job runs and when it ends; every write is fenced by the job's attempt."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import StrEnum

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from configs.errors import LeaseLost
from configs.quantities import format_duration
from db import events, queue, workers
from db.claims import BoundProcess
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Event, Experiment
from db.models.base import JsonObject
from db.session import Database
from db.states import ExperimentState, JobState, WorkerState
from experiments.engines.port import DEVICE_FAULTS, DEVICE_LOST
from experiments.job.blame import BLAMES
from experiments.job.failed_arm import CONTROL_FAILED
from experiments.job.result import ArtifactRecord, JobProgress, JobResult, StageTurn
from experiments.job.spec import AnyJob, BuildJob
from experiments.kill_points import KillPoint, reached
from experiments.measurement.evidence import Stage
from experiments.recording import record_artifacts, record_result
from experiments.worker.cancelling import ENDS_WITH_WHAT_IT_HAS
from experiments.worker.claiming import Taken
from experiments.worker.reaping import end_experiment
from experiments.worker.settings import WorkerTimes

BUILDS = frozenset({Stage.PRUNE, Stage.QUANTIZE, Stage.DRAFT})
"""Stages that build for minutes or hours without anything else to see."""

PROGRESS_EVENT_S = 60.0
"""At most one event of progress in so many seconds: the log is read by people."""


ON_REQUEST = "Cancelled on request."
"""Why a job was cancelled of which nobody said it."""

TIMED_OUT = "timed_out"
"""The kind of a failure of what took longer than it may."""


class RunOutcome(StrEnum):
    """How a run ended, for whoever keeps account of runs."""

    DONE = "done"
    FAILED = "failed"
    LOST = "lost"
    CANCELLED = "cancelled"
    RELEASED = "released"
    TIMED_OUT = "timed_out"
    """Ended at the limit that it was submitted with."""


def _nothing(session: Session, outcome: RunOutcome) -> None:
    return


class Reporter:
    """Writes about one taken job. Every method raises `LeaseLost` when the attempt no longer holds it.

    `at_end` is called in the transaction that ends the job or gives it back.
    """

    def __init__(
        self,
        database: Database,
        taken: Taken,
        times: WorkerTimes,
        worker_id: int,
        at_end: Callable[[Session, RunOutcome], None] = _nothing,
    ) -> None:
        self._at_end = at_end
        self._database = database
        self._taken = taken
        self._times = times
        self._worker_id = worker_id
        self._told: JobProgress | None = None
        self._turns_told: int | None = None
        self._progressed_at = 0.0
        self._subject = taken.subject or format_label(Noun.JOB, taken.job.id)
        """What is told of the job is about its experiment, or the job itself where it is of none."""

    def bind(self, process: BoundProcess) -> None:
        """Store the process group that works for the attempt."""
        with self._database.write() as session:
            if not queue.bind_process(session, self._taken.job.id, self._taken.job.attempt, process):
                raise _lost(self._taken)

    def cancel_requested(self) -> bool:
        """Whether the user asked for the job's end; reads only."""
        with self._database.read() as session:
            return queue.is_cancel_requested(session, self._taken.job.id, self._taken.job.attempt)

    def ends_measuring(self) -> str | None:
        """Why the job is to end with what it measured; None where its end was asked for as it is."""
        with self._database.read() as session:
            why = queue.cancel_reason(session, self._taken.job)
        return why if why is not None and why.startswith(ENDS_WITH_WHAT_IT_HAS) else None

    def beat(self, progress: JobProgress | None) -> None:
        """Extend the lease and store what the job told last; a stage that began or ended is an event."""
        job = self._taken.job
        with self._database.write() as session:
            if not queue.heartbeat(session, job.id, job.attempt, self._times.lease_s):
                raise _lost(self._taken)
            workers.beat(session, self._worker_id, WorkerState.BUSY)
            told = self.store(session, progress)
        if told:
            self.told(progress)

    def store(self, session: Session, progress: JobProgress | None) -> bool:
        """Store what the job told last, in a transaction of a caller that holds the job, who then says so by
        `told`; a stage that began or ended is an event. False where it is nothing new."""
        job = self._taken.job
        if progress is None or progress == self._told:
            return False
        if job.experiment_id is not None:
            session.execute(
                update(Experiment)
                .where(Experiment.id == job.experiment_id)
                .values(stage=progress.stage.value, progress=_stored(progress))
                .execution_options(synchronize_session=False)
            )
        told = self._tell_turns(session, progress.turns)
        if not progress.turns and (self._told is None or self._told.stage is not progress.stage):
            # an executor that tells of no turns
            told = bool(self._tell_turn(session, StageTurn(progress.stage, progress.text), {}))
        if told:
            self._progressed_at = time.monotonic()
        elif _takes_minutes(progress) and time.monotonic() - self._progressed_at >= PROGRESS_EVENT_S:
            events.append(
                session,
                EventKind.STAGE_PROGRESSED,
                f"{self._subject}: {progress.loading or progress.text}.",
                self._subject,
                job.campaign_id,
                {"stage": progress.stage.value, "done": progress.done, "planned": progress.planned},
            )
            self._progressed_at = time.monotonic()
        return True

    def told(self, progress: JobProgress | None) -> None:
        """What `store` wrote was committed."""
        self._told = progress
        if progress is not None:
            self._turns_told = max(self._turns_told or 0, len(progress.turns))

    def is_news(self, progress: JobProgress | None) -> bool:
        """Whether the job told something else than what is stored."""
        return progress is not None and progress != self._told

    def record(self, spec: AnyJob, result: JobResult, progress: JobProgress | None = None) -> None:
        """Store the result and end the job, in one transaction; `progress` is the last that it told, None
        where only its result is known."""
        job, subject = self._taken.job, self._subject
        reached(KillPoint.BEFORE_RESULT)
        with self._database.write() as session:
            queue.hold(session, job)  # a lost lease must not pay for the rows first
            failure = result.failure
            failed = failure is not None and (
                job.experiment_id is None or failure.kind in (CONTROL_FAILED, *DEVICE_FAULTS)
            )
            added = 0
            if job.experiment_id is None:
                record_artifacts(session, result)
            elif not isinstance(spec, BuildJob):
                added = record_result(session, job.experiment_id, job.attempt, spec, result)
                session.execute(
                    update(Experiment)
                    .where(Experiment.id == job.experiment_id)
                    .values(
                        state=ExperimentState.FAILED if failed else ExperimentState.DONE,
                        stage=None,
                        progress=_ended(result),
                        failure_kind=failure.kind if failure else None,
                        failure=failure.cause if failure else None,
                        finished_at=now(),
                        wall_s=result.wall_s,
                    )
                    .execution_options(synchronize_session=False)
                )
            reached(KillPoint.BETWEEN_RESULT_AND_STATE)
            cause = failure.cause if failed and failure else None
            queue.finish(session, job, JobState.FAILED if failed else JobState.DONE, cause)
            self._at_end(session, RunOutcome.FAILED if failed else RunOutcome.DONE)
            self._tell_turns(session, _turns_of(progress or self._told, result))
            for artifact in result.artifacts:
                if artifact.build_s > 0:
                    events.append(
                        session, EventKind.ARTIFACT_BUILT, _built(artifact), subject, job.campaign_id
                    )
            if added:
                text = f"{subject} added {_launches(added)} to the noise profile of its target."
                events.append(session, EventKind.NOISE_RECORDED, text, subject, job.campaign_id)
            if not failed and job.experiment_id is not None:
                text = f"{subject} {_measured(result)}"
                events.append(session, EventKind.EXPERIMENT_MEASURED, text, subject, job.campaign_id)
            if failed and cause and job.experiment_id is None:
                self._tell(session, EventKind.JOB_FAILED, f"failed: {cause}")
            elif failed and cause:
                events.append(
                    session,
                    EventKind.EXPERIMENT_FAILED,
                    f"{subject} failed: {cause}",
                    subject,
                    job.campaign_id,
                )
            if failure is not None and failure.kind == DEVICE_LOST:
                text = f"{job.device}: {failure.cause}"
                events.append(session, EventKind.DEVICE_LOST, text, subject, job.campaign_id)

    def fail(self, kind: str, cause: str) -> None:
        """End the job without a result: trying again would give the same."""
        job = self._taken.job
        with self._database.write() as session:
            queue.finish(session, job, JobState.FAILED, cause)
            self._at_end(session, RunOutcome.FAILED)
            if job.experiment_id is not None:
                end_experiment(session, job.experiment_id, ExperimentState.FAILED, kind, cause)
            self._tell(session, EventKind.JOB_FAILED, f"failed: {cause}")

    def give_up(self, cause: str, outcome: RunOutcome = RunOutcome.LOST) -> None:
        """The run broke off; the job goes back to its place, or fails when its attempts are used up."""
        job = self._taken.job
        with self._database.write() as session:
            state = queue.give_up(session, job, cause)
            self._at_end(session, outcome)
            if state is JobState.QUEUED:
                self._tell(session, EventKind.JOB_REQUEUED, f"goes back to its place: {cause}")
                return
            if job.experiment_id is not None:
                kind = TIMED_OUT if outcome is RunOutcome.TIMED_OUT else "crashed"
                end_experiment(session, job.experiment_id, ExperimentState.FAILED, kind, cause)
            self._tell(session, EventKind.JOB_FAILED, f"failed, and has no attempt left: {cause}")

    def cancelled(self, why: str | None = None) -> None:
        """The job's end was asked for, and nothing of it runs any more; `why` is as its canceller said, if
        not given."""
        job = self._taken.job
        with self._database.write() as session:
            why = why or queue.cancel_reason(session, job) or ON_REQUEST
            queue.finish(session, job, JobState.CANCELLED, why)
            self._at_end(session, RunOutcome.CANCELLED)
            if job.experiment_id is not None:
                end_experiment(
                    session,
                    job.experiment_id,
                    ExperimentState.CANCELLED,
                    "cancelled",
                    why,
                )
            self._tell(session, EventKind.JOB_CANCELLED, f"is cancelled: {why}")

    def release(self, why: str = "its worker was stopped.") -> None:
        """The worker ends in good order, or leaves the job to others, as `why` says; it goes back, and the
        attempt is not held against it. One whose end was asked for does not: it is cancelled."""
        with self._database.read() as session:
            asked = queue.cancel_reason(session, self._taken.job)
        if asked is not None:
            self.cancelled(asked)
            return
        with self._database.write() as session:
            queue.release(session, self._taken.job)
            self._at_end(session, RunOutcome.RELEASED)
            self._tell(session, EventKind.JOB_REQUEUED, f"goes back to its place: {why}")

    def _tell_turns(self, session: Session, turns: Sequence[StageTurn]) -> bool:
        """Tell of the stages that began and ended since it was told last, in their order; whether any did."""
        before = self._turns_before(session) if self._turns_told is None else self._turns_told
        for place, each in enumerate(turns[before:], start=before):
            self._tell_turn(session, each, {"attempt": self._taken.job.attempt, "turn": place})
        return len(turns) > before

    def _tell_turn(self, session: Session, turn: StageTurn, place: JsonObject) -> int:
        subject = self._subject
        data: JsonObject = {"stage": turn.stage.value, **place}
        if turn.outcome is None:
            kind, text = EventKind.STAGE_STARTED, f"{subject}: {turn.text}."
        else:
            kind = EventKind.STAGE_FINISHED
            text = f"{subject}: {turn.text}, {turn.outcome} after {format_duration(turn.wall_s)}."
            data |= {"outcome": turn.outcome, "wall_s": turn.wall_s}
        return events.append(session, kind, text, subject, self._taken.job.campaign_id, data)

    def _turns_before(self, session: Session) -> int:
        """How many of them a worker told that had this very run before; of another attempt's none."""
        kinds = (EventKind.STAGE_STARTED.value, EventKind.STAGE_FINISHED.value)
        told = select(Event.data).where(Event.subject == self._subject, Event.kind.in_(kinds))
        attempt = self._taken.job.attempt
        mine = [
            int(each["turn"]) for each in session.scalars(told) if each and each.get("attempt") == attempt
        ]
        return max(mine, default=-1) + 1

    def _tell(self, session: Session, kind: EventKind, what: str) -> None:
        label = format_label(Noun.JOB, self._taken.job.id)
        events.append(session, kind, f"{label} {what}", self._subject, self._taken.job.campaign_id)


def _measured(result: JobResult) -> str:
    """What a job that ended left, in words."""
    launches = len(result.launches)
    samples = sum(len(each.samples) for each in result.launches)
    took = f"in {format_duration(result.wall_s)}" if result.wall_s else ""
    left = f"{_launches(launches)}, {samples:,} samples of all metrics"
    broke = "" if result.failure is None else f"; it ended because {result.failure.cause.rstrip('.')}"
    return f"was measured {took}: {left}{broke}.".replace(" :", ":")


def _turns_of(told: JobProgress | None, result: JobResult) -> tuple[StageTurn, ...]:
    """What began and ended in a job, with what of its result it had not told before its end."""
    turns = () if told is None else told.turns
    known = sum(each.outcome is not None for each in turns)
    return turns + tuple(
        StageTurn(each.stage, each.stage.value, each.outcome, each.wall_s) for each in result.stages[known:]
    )


def _launches(count: int) -> str:
    return f"{count} {'launch' if count == 1 else 'launches'}"


def _takes_minutes(progress: JobProgress) -> bool:
    """Whether it builds something, or waits for launches that come up."""
    return progress.stage in BUILDS or progress.loading is not None


def _stored(progress: JobProgress) -> JsonObject:
    """How an experiment keeps where it is; `arm` only where one alone is worked on, `timing` and `loading`
    only where it is so."""
    told: JsonObject = {"done": progress.done, "planned": progress.planned, "text": progress.text}
    if progress.arm is not None:
        told["arm"] = progress.arm.value
    if progress.loading is not None:
        told["loading"] = progress.loading
    return {**told, "timing": True} if progress.timing else told


def _ended(result: JobResult) -> JsonObject:
    """What an experiment keeps of how it ended; `blames` only where the engine's words put a failure down to
    something."""
    blames = {} if result.failure is None else result.failure.blames
    return {"stop_reason": result.stop_reason, **({BLAMES: dict(blames)} if blames else {})}


def _built(artifact: ArtifactRecord) -> str:
    took = format_duration(artifact.build_s)
    return f"Built the artifact {artifact.kind} {artifact.digest[:12]} in {took}."


def _lost(taken: Taken) -> LeaseLost:
    return LeaseLost(
        f"Attempt {taken.job.attempt} of {format_label(Noun.JOB, taken.job.id)} lost its lease.",
        "Its run is ended and its results are dropped; the attempt that holds the job records them.",
    )

"""One stage of a job: limited in time, told when it begins, recorded when it ends, however it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from experiments.engines.port import Infeasible
from experiments.job.limits import TIME_IS_UP
from experiments.job.open_launch import ArmInfeasible
from experiments.job.result import StageRecord
from experiments.job.running_job import LAUNCH_LOGS, RunningJob
from experiments.measurement.evidence import NOT_UP, Arm, Json, Stage


@dataclass
class StageTold:
    """What a stage says of itself while it runs: the arm that it is `on`, what is done of what is planned,
    and whether it has come to `timing`."""

    job: RunningJob
    stage: Stage
    planned: int
    text: str
    done: int = 0
    arm: Arm | None = None
    timing: bool = False
    outcome: str = "done"
    detail: Mapping[str, Json] = field(default_factory=dict)

    def begin_timing(self) -> None:
        """What was to be loaded is up, and is timed from here on."""
        if not self.timing:
            self.timing = True
            self._tell()

    def on(self, arm: Arm) -> None:
        """The next piece is of this arm."""
        if arm is not self.arm:
            self.arm = arm
            self._tell()

    def advance(self, to: Arm | None = None) -> None:
        """One more piece is done; the next one is of the arm `to`, of the same as before if not given."""
        self.done += 1
        self.arm = to or self.arm
        self._tell()

    def restart(self) -> None:
        """What is done by now does not count, and all that is planned is done anew."""
        self.done, self.arm = 0, None
        self._tell()

    def not_up(self, sentence: str) -> None:
        """Tell in the stage's detail and in the job's log of a launch that had no room beside others, or did
        not come up beside them for another reason."""
        before = self.detail.get(NOT_UP)
        said = before if isinstance(before, list) else []
        self.detail = {**self.detail, NOT_UP: [*said, sentence]}
        self.job.records.note(sentence)

    def _tell(self) -> None:
        self.job.records.progress(self.stage, self.done, self.planned, self.text, self.arm, self.timing)


@contextmanager
def stage(job: RunningJob, name: Stage, planned: int, text: str) -> Iterator[StageTold]:
    """Run the block as a stage of `planned` pieces; an error in it is recorded as failed and goes on."""
    told = StageTold(job, name, planned, text)
    job.records.progress(name, 0, planned, text)
    started_at, started = datetime.now(UTC), time.monotonic()
    try:
        with job.limits.of(name):
            yield told
    except BaseException as error:
        reason = error.reason if isinstance(error, ArmInfeasible) else error
        told.outcome = "failed"
        if isinstance(reason, Infeasible):
            told.detail = {**told.detail, "kind": reason.kind, "cause": reason.cause}
            if reason.kind in ("timed_out", TIME_IS_UP):
                told.outcome = "timed_out"
        raise
    finally:
        job.records.stage(
            StageRecord(
                name,
                started_at.isoformat(),
                time.monotonic() - started,
                told.outcome,
                told.detail,
                str(job.context.folder / LAUNCH_LOGS),
            )
        )

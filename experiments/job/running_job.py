"""What every step of a job has at hand, and nothing of launches but their logs' folder."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from experiments.engines.port import Engine
from experiments.job.context import JobContext
from experiments.job.device_guard import DeviceGuard
from experiments.job.limits import StageLimits
from experiments.job.records import Records
from experiments.job.spec import AnyJob, TestJob
from experiments.measurement.plan import Workload

LAUNCH_LOGS = "launches"
"""Folder within the job's folder that holds one log a launch."""


class Closes(Protocol):
    """What is ended when it is of no use any more, such as a launch."""

    def close(self) -> None:
        """End it; idempotent."""
        ...


@dataclass(frozen=True)
class RunningJob:
    """What every step of a job has at hand."""

    spec: AnyJob
    context: JobContext
    engine: Engine
    records: Records
    limits: StageLimits
    guard: DeviceGuard = field(default_factory=lambda: DeviceGuard("cpu"))
    spare: list[Closes] = field(default_factory=list)
    """Launches that are up and may still be of use; ended where one that is wanted needs their room."""
    counting: threading.Lock = field(default_factory=threading.Lock)
    """Held while launches are counted: a thread may end one that another leaves behind."""

    @property
    def workload(self) -> Workload:
        """What the job asks of its launches."""
        return self.spec.plan.workload if isinstance(self.spec, TestJob) else self.spec.workload

    def begin_ahead(self, launches: int) -> None:
        """Let an engine that can do so begin the processes of the first launches, while nothing is timed."""
        if (begin := getattr(self.engine, "begin_ahead", None)) is not None:
            for _ in range(launches):
                begin(self.spec.device, self.logs(), self.context.cache_dir)

    def expect(self, launches: int) -> None:
        """Tell an engine that can begin processes ahead how many launches the job opens at once after those
        that it opens next."""
        if (expect := getattr(self.engine, "expect", None)) is not None:
            expect(launches)

    def logs(self) -> Path:
        """The folder of its launches' logs, made where it is not there."""
        logs = self.context.folder / LAUNCH_LOGS
        logs.mkdir(exist_ok=True)
        return logs

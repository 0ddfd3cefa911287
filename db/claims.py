"""What the durable queue hands out: claims, what was reaped, and the processes that jobs left behind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from db.models.base import JsonObject
from db.states import JobState


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job as its owner holds it: `(id, attempt)` is the fence of everything it writes.

    `predecessor` is the process that an earlier attempt bound and that nobody has ended for certain.
    """

    id: int
    attempt: int
    kind: str
    spec: JsonObject
    campaign_id: int | None
    experiment_id: int | None
    priority: float
    device: str
    device_class: str
    owner: str
    lease_expires_at: datetime
    predecessor: BoundProcess | None


@dataclass(frozen=True, slots=True)
class BoundProcess:
    """A process group on a host, named by its leader as `experiments.executors.process_group` does.

    `started_at_s`, the start of its leader in seconds since the epoch, tells it from a later group that was
    given the same id; where `kernel` and `started_ticks` are known they do, whatever the clock says.
    """

    host: str
    pgid: int
    started_at_s: float
    kernel: str | None = None
    started_ticks: int | None = None


@dataclass(frozen=True, slots=True)
class Reaped:
    """What `reap` did to a job whose lease had run out: `state` is `queued`, `failed` or `cancelled`."""

    job_id: int
    attempt: int
    state: JobState
    campaign_id: int | None
    experiment_id: int | None
    owner: str | None
    device: str | None
    process: BoundProcess | None


@dataclass(frozen=True, slots=True)
class Leftover:
    """A process that may still run although its job does not: end it, then `forget_process`."""

    job_id: int
    attempt: int
    process: BoundProcess

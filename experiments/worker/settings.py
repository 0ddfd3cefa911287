"""Who a worker is, and the times it lives by."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

LEASE_S = 60.0
"""How long a job stays with a worker that says nothing, in seconds: long beside a pause of the machine,
short beside an experiment."""

BUSY_POLL_S = 1.0
"""How often a running job is looked at, by its worker and by another one that waits for the device; rarely,
because the look takes time from the measured machine. Its worker notices the end of a local job at once."""

IDLE_POLL_S = 0.1
"""How often an idle worker looks for a job while nothing is measured on its device: the wait adds to each
dispatch."""

PROGRESS_S = 2.0
"""How often progress is written to the database at most: each write is a synchronous one (`db.session`)."""

BEATS_A_LEASE = 3
"""Heartbeats a lease, so that one that fails or is late loses nothing."""

WORKER_ROW_S = 5.0
"""How often an idle worker says that it lives, and any worker what it leaves in the queue."""

AWAY_S = 1.0
"""How long a worker waits before it tries again to reach a database that did not answer."""

ASIDE_S = 600.0
"""How long a host whose disk is full takes no job while others take them."""

ENDS_WITHIN_S = 60.0
"""How long a run that is asked to end with what it measured may take to, twice what a stage may that is over
its limit (`limits.STUCK_AFTER_S`); then it is ended as it is."""

HEARD_OF_S = 120.0
"""How long ago the others may have been heard of: two leases."""


@dataclass(frozen=True)
class WorkerTimes:
    """The times a worker lives by, seconds."""

    lease_s: float = LEASE_S
    busy_poll_s: float = BUSY_POLL_S
    idle_poll_s: float = IDLE_POLL_S
    progress_s: float = PROGRESS_S

    @property
    def heartbeat_s(self) -> float:
        """How often the lease is extended."""
        return self.lease_s / BEATS_A_LEASE


@dataclass(frozen=True)
class WorkerName:
    """Who a worker is: its host, its device there (`cpu`, `cuda:0`), and its process.

    `target` is what the device is, as experiments name what they are for (`cuda:NVIDIA H200:151 GB`); the
    worker leaves jobs for others alone. None: it takes them whatever they are for.
    """

    host: str
    device: str
    pid: int
    target: str | None = None
    mark: str = ""
    """Tells it from another of the same process id, where that could be one: in containers ids come again."""

    @classmethod
    def here(cls, device: str, target: str | None = None) -> WorkerName:
        """The name of a worker for `device` in this process."""
        return cls(socket.gethostname(), device, os.getpid(), target)

    @property
    def owner(self) -> str:
        """The owner of its leases, unique among workers that live: `desk/cpu#4711`."""
        return f"{self.host}/{self.device}#{self.pid}{self.mark and '-'}{self.mark}"

    @property
    def device_key(self) -> str:
        """The device as it is unique among hosts: `desk/cpu`."""
        return f"{self.host}/{self.device}"

    @property
    def device_classes(self) -> tuple[str, ...]:
        """The classes of jobs that the device runs: `cuda:0` runs those for `cuda:0` and for any `cuda`."""
        return tuple(dict.fromkeys((self.device, self.device.partition(":")[0])))

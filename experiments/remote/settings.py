"""The times a remote worker lives by, and how often it asks for a run. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.worker.settings import WorkerTimes

MOST_IN_FLIGHT = 20
"""Runs that a worker keeps in flight at once if nobody says more: so many rented machines are dear."""

POLLS_PER_S = 50.0
"""Most looks at runs a second, over all runs of a worker: far below what providers limit, and little work."""


@dataclass(frozen=True)
class RemoteTimes:
    """Seconds: the lease of jobs; how often the queue is looked into; the shortest and the longest wait
    between two looks at a run, and the share of a run's age that the wait is between them; how long the quote
    of a job that waits is kept, and how old one may be by which a job is submitted."""

    lease_s: float = 60.0
    look_s: float = 1.0
    soonest_s: float = 1.0
    latest_s: float = 30.0
    share_of_age: float = 0.1
    quote_lasts_s: float = 300.0
    fresh_s: float = 10.0

    @property
    def as_worker(self) -> WorkerTimes:
        """The same for what reports about a single job."""
        return WorkerTimes(lease_s=self.lease_s)

    @property
    def heartbeat_s(self) -> float:
        """How often the leases of all jobs are extended."""
        return self.as_worker.heartbeat_s

    def wait_s(self, age_s: float, in_flight: int) -> float:
        """How long to wait before the next look at a run of this age.

        It grows with the age, because the end of a long run may be noticed later, and with the number of
        runs, so that all of them together are looked at `POLLS_PER_S` times a second at most.
        """
        wanted = max(self.soonest_s, min(age_s * self.share_of_age, self.latest_s))
        return max(wanted, in_flight / POLLS_PER_S)

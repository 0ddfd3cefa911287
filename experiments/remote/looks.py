"""When each run in flight is to be looked at next."""

from __future__ import annotations

import heapq
import time
from collections.abc import Mapping

from experiments.remote.flight import Flight
from experiments.remote.settings import RemoteTimes

LOOKS_A_TURN = 64
"""Runs that are looked at in one turn, so that leases are extended in time however slow a provider is."""

EARLY = 0.1
"""The share of its wait by which a run may be looked at early, beside another that is due."""


class Looks:
    """The order of looks at `flights`, by job, from which runs may come and go meanwhile."""

    def __init__(self, flights: Mapping[int, Flight], times: RemoteTimes) -> None:
        self._flights = flights
        self._times = times
        self._due: list[tuple[float, int, int]] = []
        """When each run is due by the monotonic clock, its id, and its job's."""

    def add(self, flight: Flight, wait_s: float) -> None:
        """A run that is due in so many seconds."""
        heapq.heappush(self._due, (time.monotonic() + wait_s, flight.run.id, flight.taken.job.id))

    def take(self) -> list[Flight]:
        """The runs that are due, at most `LOOKS_A_TURN`, and with them those that are nearly so, so that they
        are asked for together; each is due again after its wait."""
        moment = time.monotonic()
        found: list[tuple[float, Flight]] = []
        while self._due and len(found) < LOOKS_A_TURN:
            due, run_id, job_id = self._due[0]
            flight = self._flights.get(job_id)
            early_s = 0.0 if flight is None or not found else EARLY * self._wait_s(flight)
            if due > moment + early_s:
                break
            heapq.heappop(self._due)
            if flight is not None and flight.run.id == run_id:
                found.append((due, flight))
        for due, flight in found:
            again = max(due, moment) + self._wait_s(flight)
            heapq.heappush(self._due, (again, flight.run.id, flight.taken.job.id))
        return [flight for _, flight in found]

    @property
    def next_at(self) -> float:
        """When the next run is due, by the monotonic clock; infinite where there is none."""
        return self._due[0][0] if self._due else float("inf")

    def _wait_s(self, flight: Flight) -> float:
        return self._times.wait_s(flight.age_s, len(self._flights))

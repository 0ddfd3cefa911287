"""What a worker asks of the executor about its runs, many at once where the executor allows it: where each
stands, what it wrote, what it cost, its end. Knows no database."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

from configs.errors import AutoinferError
from experiments.executors.port import Cost, Executor, RunState, Status
from experiments.remote.extras import Tells
from experiments.remote.flight import Flight

_LOG = logging.getLogger(__name__)

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Provider:
    """Asks an executor, in as many threads as it allows. `keeps_logs`: it copies nothing of what runs write,
    as the executor itself has it where pages look."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.keeps_logs = not getattr(executor, "logs_elsewhere", False)
        self._tells = cast("Tells", executor) if hasattr(executor, "extras") else None
        threads = int(getattr(executor, "threads", 1))
        self._threads = ThreadPoolExecutor(threads, "remote") if threads > 1 else None

    def close(self) -> None:
        """End its threads."""
        if self._threads is not None:
            self._threads.shutdown()

    def each(self, ask: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer | AutoinferError]:
        """What is answered for each, or its fault."""

        def answer(item: Item) -> Answer | AutoinferError:
            try:
                return ask(item)
            except AutoinferError as error:
                return error

        return list(map(answer, items) if self._threads is None else self._threads.map(answer, items))

    def poll(self, flights: list[Flight]) -> list[Status | AutoinferError]:
        """Where each run stands, or its fault, with what it wrote copied."""
        self._read_ahead(flights)
        return self.each(self._poll, flights)

    def cancel(self, flights: list[Flight]) -> list[AutoinferError | None]:
        """End each run and everything of it, and learn what it cost; or its fault."""
        return self.each(self._cancel, flights)

    def cost(self, ref: str) -> Cost | None:
        """What the run has cost; None where nobody tells."""
        try:
            return self.executor.cost(ref)
        except AutoinferError as error:
            _LOG.warning("%s", error)
            return None

    def _read_ahead(self, flights: list[Flight]) -> None:
        """Let the executor ask for all these runs at once, where it can."""
        ahead: Callable[[list[str]], None] | None = getattr(self.executor, "ahead", None)
        if ahead is None or len(flights) < 2:
            return
        try:
            ahead([flight.ref for flight in flights if flight.ref is not None])
        except AutoinferError as error:
            _LOG.warning("%s", error)  # each of them is asked for, and its fault told

    def _poll(self, flight: Flight) -> Status:
        assert flight.ref is not None
        status = self.executor.poll(flight.ref)
        if status.state is not RunState.PENDING:
            self._copy(flight, flight.ref, last=status.state is not RunState.RUNNING)
        return status

    def _copy(self, flight: Flight, ref: str, *, last: bool) -> None:
        """Copy what the run wrote since the last look, at the `last` all of it."""
        try:
            if flight.log is not None:
                flight.log.update(self.executor, ref, last=last)
            if flight.extras is not None and self._tells is not None:
                flight.extras.update(self._tells, ref, last=last)
        except (AutoinferError, OSError) as error:
            _LOG.warning("What %s wrote was not copied: %s", flight.run.key, error)

    def _cancel(self, flight: Flight) -> None:
        ref = flight.ref or (self.executor.find(flight.run.key) if flight.asked else None)
        if ref is None:
            flight.cost = Cost(0.0, 0.0)
            return
        flight.ref = ref
        self.executor.cancel(ref)
        flight.cost = self.cost(ref)

"""When the tokens of each step arrive, for requests of ours. In the driver.

vLLM's output handler puts a step's tokens of a request into a collector, from which the task that asked takes
them; where that task comes late, as it does with many requests at once, vLLM joins the tokens of several
steps. For requests whose name begins with `OURS` the collector is one that keeps them apart, each with the
time at which it was put there. Requests of others, such as those of an HTTP server on the same engine, keep
vLLM's own.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from experiments.engines.port import Infeasible

OURS = "autoinfer-"
"""Begins the name of a request whose arrivals are kept apart."""

_ARRIVED = "autoinfer_arrived_s"


def arrived_s(output: Any) -> float:
    """When an output of a request of ours arrived, in seconds of `time.perf_counter`."""
    return float(getattr(output, _ARRIVED))


def keep_arrivals() -> None:
    """Let vLLM's asynchronous engine take the collector below for requests of ours, from now on.

    Raises:
        Infeasible: kind `unsupported`, where this vLLM collects outputs in another way.
    """
    from vllm.v1.engine import async_llm

    theirs = getattr(async_llm, "RequestOutputCollector", None)
    if theirs is None:
        raise Infeasible("unsupported", "This vLLM hands its outputs over in a way that is not known here.")
    ours = apart(theirs)

    def collector(output_kind: Any, request_id: str) -> Any:
        return (ours if request_id.startswith(OURS) else theirs)(output_kind, request_id)

    async_llm.RequestOutputCollector = collector


def apart(theirs: Any) -> Any:
    """A subclass of vLLM's `RequestOutputCollector` that joins nothing and notes when each output came."""

    class Apart(theirs):  # type: ignore[misc]
        """Hands over every output on its own, in order; an exception is raised when its turn comes."""

        def __init__(self, output_kind: Any, request_id: str) -> None:
            super().__init__(output_kind, request_id)
            self._waiting: deque[Any] = deque()

        def put(self, output: Any) -> None:
            if not isinstance(output, Exception):
                setattr(output, _ARRIVED, time.perf_counter())
            self._waiting.append(output)
            self.ready.set()

        async def get(self) -> Any:
            while not self._waiting:
                self.ready.clear()
                await self.ready.wait()
            return self.get_nowait()

        def get_nowait(self) -> Any:
            if not self._waiting:
                return None
            output = self._waiting.popleft()
            if isinstance(output, Exception):
                raise output
            return output

    return Apart

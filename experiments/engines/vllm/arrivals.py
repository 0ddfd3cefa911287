"""When the tokens of each step arrive, for requests of ours. In the driver.

vLLM's output handler puts a step's tokens of a request into a collector, from which the task that asked takes
them; where that task comes late, as it does with many requests at once, vLLM joins the tokens of several
steps. For requests whose name begins with `OURS` the collector is one that keeps them apart, each with the
time at which it was put there.

Requests of ours that come over the HTTP server on the same engine keep vLLM's own, and what it joins stays
joined, as for every user of that server; of these is only counted how many tokens each step gave, where steps
give several. Requests of others keep vLLM's own as it is.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from experiments.engines.port import Infeasible

OURS = "autoinfer-"
"""Begins the name of a request whose arrivals are kept apart."""

OURS_OVER_HTTP = f"cmpl-{OURS}"
"""The same of one that came over HTTP: vLLM's server puts a word of its own before the name that it is told,
and more behind it."""

_ARRIVED = "autoinfer_arrived_s"


def arrived_s(output: Any) -> float:
    """When an output of a request of ours arrived, in seconds of `time.perf_counter`."""
    return float(getattr(output, _ARRIVED))


class StepsOverHttp:
    """How many tokens each step gave to requests that came over HTTP, by the name that the client gave."""

    def __init__(self) -> None:
        self._steps: dict[str, list[int]] = {}

    def count(self, request_id: str, output: Any) -> None:
        """Count a step's tokens of a request, by vLLM's name for it."""
        if isinstance(output, Exception) or not getattr(output, "outputs", ()):
            return
        if tokens := len(output.outputs[0].token_ids):
            self._steps.setdefault(_name_of(request_id), []).append(tokens)

    def taken(self, names: Sequence[str]) -> list[list[int]]:
        """The steps of these requests; they and all others are forgotten."""
        steps, self._steps = self._steps, {}
        return [steps.get(name, []) for name in names]


def _name_of(request_id: str) -> str:
    """`autoinfer-3-15` of `cmpl-autoinfer-3-15-0-5f3a…`: block and place in it."""
    return OURS + "-".join(request_id.removeprefix(OURS_OVER_HTTP).split("-")[:2])


def keep_arrivals(steps: StepsOverHttp | None = None) -> None:
    """Let vLLM's asynchronous engine take the collector below for requests of ours, from now on, and count
    into `steps` what those over HTTP get; None: not counted.

    Raises:
        Infeasible: kind `unsupported`, where this vLLM collects outputs in another way.
    """
    from vllm.v1.engine import async_llm

    theirs = getattr(async_llm, "RequestOutputCollector", None)
    if theirs is None:
        raise Infeasible("unsupported", "This vLLM hands its outputs over in a way that is not known here.")
    ours = apart(theirs)

    counted = None if steps is None else counting(theirs, steps)

    def collector(output_kind: Any, request_id: str) -> Any:
        if counted is not None and request_id.startswith(OURS_OVER_HTTP):
            return counted(output_kind, request_id)
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


def counting(theirs: Any, steps: StepsOverHttp) -> Any:
    """A subclass of vLLM's `RequestOutputCollector` that is the same, and tells `steps` of what is put in."""

    class Counting(theirs):  # type: ignore[misc]
        """Counts, and hands over as vLLM does."""

        def __init__(self, output_kind: Any, request_id: str) -> None:
            super().__init__(output_kind, request_id)
            self._name = request_id

        def put(self, output: Any) -> None:
            steps.count(self._name, output)
            super().put(output)

    return Counting

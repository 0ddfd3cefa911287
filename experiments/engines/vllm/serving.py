"""Requests at once on a loaded vLLM, in a closed loop. In the driver.

As in `vllm bench serve --max-concurrency N` with all requests there from the beginning: N are under way, and
as soon as one has ended the next one starts. A request's times begin when it is handed to vLLM.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.engines.port import GenerationRequest, GenerationTrace

if TYPE_CHECKING:
    from experiments.engines.vllm.loaded_engine import LoadedEngine


async def serve(
    engine: LoadedEngine, requests: Sequence[GenerationRequest], concurrency: int
) -> list[GenerationTrace]:
    """One trace a request, in their order; raises what the first to fail raises, and ends the others."""
    traces: dict[int, GenerationTrace] = {}
    waiting = iter(enumerate(requests))

    async def one_after_the_other() -> None:
        for place, request in waiting:
            traces[place] = await engine.generate(request)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(requests))):
                group.create_task(one_after_the_other())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [traces[place] for place in range(len(requests))]

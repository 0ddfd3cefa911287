"""Requests of ours get every output on its own, with the time at which it came; others get vLLM's collector.

The collector that stands for vLLM's has its interface: `put`, and `get` that joins what came meanwhile.
"""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.engines.vllm.arrivals import apart, arrived_s


class Joining:
    """As vLLM's: outputs that nobody took yet are joined."""

    def __init__(self, output_kind: object, request_id: str) -> None:
        self.request_id = request_id
        self.ready = asyncio.Event()


def output(*tokens: int) -> Any:
    return SimpleNamespace(tokens=tokens)


def test_outputs_of_several_steps_that_nobody_took_yet_stay_apart_in_order() -> None:
    collector = apart(Joining)("delta", "autoinfer-1")
    for token in (1, 2, 3):
        collector.put(output(token))
    taken = [collector.get_nowait() for _ in range(3)]
    assert [each.tokens for each in taken] == [(1,), (2,), (3,)]
    times_s = [arrived_s(each) for each in taken]
    assert times_s == sorted(times_s)
    assert collector.get_nowait() is None


def test_who_waits_gets_an_output_when_it_comes_and_its_time_is_when_it_was_put() -> None:
    async def both() -> tuple[Any, Any]:
        collector = apart(Joining)("delta", "autoinfer-1")
        waiting = asyncio.create_task(collector.get())
        await asyncio.sleep(0)
        assert not waiting.done()
        first, second = output(1), output(2)
        collector.put(first)
        collector.put(second)
        return await waiting, await collector.get()

    first, second = asyncio.run(both())
    assert (first.tokens, second.tokens) == ((1,), (2,))
    assert arrived_s(first) <= arrived_s(second)


def test_a_failure_is_raised_after_what_came_before_it() -> None:
    collector = apart(Joining)("delta", "autoinfer-1")
    collector.put(output(1))
    collector.put(RuntimeError("the engine is dead"))
    assert collector.get_nowait().tokens == (1,)
    with pytest.raises(RuntimeError, match="dead"):
        collector.get_nowait()

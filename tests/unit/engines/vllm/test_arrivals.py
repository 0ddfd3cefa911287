"""Requests of ours get every output on its own, with the time at which it came; others get vLLM's collector.

The collector that stands for vLLM's has its interface: `put`, and `get` that joins what came meanwhile.
"""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.engines.vllm.arrivals import StepsOverHttp, apart, arrived_s, counting


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


class Holding(Joining):
    """As vLLM's: what is put in is there to be taken, joined."""

    def __init__(self, output_kind: object, request_id: str) -> None:
        super().__init__(output_kind, request_id)
        self.held: list[int] = []

    def put(self, output: Any) -> None:
        self.held += output.outputs[0].token_ids


def test_of_requests_over_http_the_tokens_of_each_step_are_counted_and_vllm_joins_them_as_it_does() -> None:
    steps = StepsOverHttp()
    first, other = (
        counting(Holding, steps)("delta", f"cmpl-autoinfer-3-{place}-0-1f2e") for place in (0, 11)
    )
    for tokens in ((5,), (), (6, 7), (8,)):
        first.put(SimpleNamespace(outputs=[SimpleNamespace(token_ids=tokens)]))
    other.put(SimpleNamespace(outputs=[SimpleNamespace(token_ids=(9, 9))]))
    assert first.held == [5, 6, 7, 8]
    assert steps.taken(["autoinfer-3-0", "autoinfer-3-11", "autoinfer-3-12"]) == [[1, 2, 1], [2], []]
    assert steps.taken(["autoinfer-3-0"]) == [[]], "told once"

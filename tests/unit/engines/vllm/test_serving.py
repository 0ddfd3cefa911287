"""The closed loop of requests, with a driver that answers in an order that the test gives."""

import asyncio
from collections.abc import Sequence

import pytest

from experiments.engines.port import GenerationRequest, GenerationTrace, Infeasible
from experiments.engines.vllm.serving import serve


class Driver:
    """Answers a request after as many turns of the loop as it has new tokens; fails for item `bad`."""

    def __init__(self) -> None:
        self.under_way: set[str] = set()
        self.at_once: list[int] = []
        self.ended: list[str] = []

    async def generate(self, request: GenerationRequest) -> GenerationTrace:
        self.under_way.add(request.item)
        try:
            for _ in range(request.new_tokens):
                self.at_once.append(len(self.under_way))
                await asyncio.sleep(0)
            if request.item == "bad":
                raise Infeasible("illegal", "a bad request")
            self.ended.append(request.item)
            return GenerationTrace((int(request.item),), (1.0,))
        finally:
            self.under_way.discard(request.item)


def requests(turns: Sequence[int]) -> list[GenerationRequest]:
    return [GenerationRequest(str(place), (1,), count) for place, count in enumerate(turns)]


@pytest.mark.parametrize(("concurrency", "most"), [(1, 1), (3, 3), (9, 5)])
def test_as_many_requests_as_asked_for_are_under_way_and_traces_keep_their_order(
    concurrency: int, most: int
) -> None:
    driver = Driver()
    traces = asyncio.run(serve(driver, requests([7, 2, 9, 4, 3]), concurrency))  # type: ignore[arg-type]
    assert [trace.token_ids for trace in traces] == [(0,), (1,), (2,), (3,), (4,)]
    assert max(driver.at_once) == most


def test_a_request_starts_as_soon_as_another_has_ended() -> None:
    driver = Driver()
    asyncio.run(serve(driver, requests([9, 2, 2, 2]), 2))  # type: ignore[arg-type]
    assert driver.ended == ["1", "2", "3", "0"]


def test_a_request_that_fails_is_told_and_ends_the_others() -> None:
    driver = Driver()
    asked = [*requests([50, 50]), GenerationRequest("bad", (1,), 3)]
    with pytest.raises(Infeasible, match="a bad request"):
        asyncio.run(serve(driver, asked, 3))  # type: ignore[arg-type]
    assert driver.under_way == set()
    assert driver.ended == []

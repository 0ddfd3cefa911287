"""One cell of a table: its requests, what is kept of their times, and the figures that follow. Pure.

Times are kept as whole microseconds: of each request its start within the cell, the time to its first
token, then the gap to each further one, or, in an archive (`archive.py`), their sum and number. Figures are
vLLM's own (`vllm bench serve`): TPOT is a request's time after its first token over the tokens after it, ITL
are the gaps between arrivals.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from agent.tables.grid import TableWorkload
from experiments.engines.port import GenerationRequest, GenerationTrace

US_PER_S, US_PER_MS = 1e6, 1e3

WARM_UP_TOKENS = 8
"""Tokens out of a warm-up request."""


def requests_of(
    workload: TableWorkload, words: Sequence[int], seed: int, cell: str
) -> list[GenerationRequest]:
    """Requests of random `words`, of which no two begin alike; the same for a seed and `cell`."""
    return [
        GenerationRequest(
            f"{cell} {number}",
            _tokens(workload.prompt_tokens, words, f"{seed}/{workload.key}/{cell}/{number}"),
            workload.new_tokens,
            seed,
        )
        for number in range(workload.requests)
    ]


def warm_up(
    workloads: Sequence[TableWorkload], words: Sequence[int], most_at_once: int
) -> Iterator[tuple[list[GenerationRequest], int]]:
    """What is served before anything is timed, with its concurrency: a request of each length, and the
    shortest prompts as many at once as any cell has, for first requests compile kernels."""
    lengths = sorted({each.prompt_tokens for each in workloads})
    for length in lengths:
        yield [_warm_up_request(length, words, 0)], 1
    at_once = min(most_at_once, max(each.concurrency for each in workloads))
    if at_once > 1:
        yield [_warm_up_request(lengths[0], words, 1 + each) for each in range(at_once)], at_once


def _warm_up_request(length: int, words: Sequence[int], number: int) -> GenerationRequest:
    tokens = _tokens(length, words, f"warm-up/{length}/{number}")
    return GenerationRequest(f"warm-up {length} {number}", tokens, WARM_UP_TOKENS)


def _tokens(count: int, words: Sequence[int], seed: str) -> tuple[int, ...]:
    return tuple(random.Random(seed).choices(words, k=count))


def kept(traces: Sequence[GenerationTrace]) -> list[dict[str, Any]]:
    """The times of requests as a journal has them."""
    first_s = min(trace.start_s for trace in traces)
    found = []
    for trace in traces:
        us = [round(US_PER_S * time_s) for time_s in trace.token_times_s]
        told: dict[str, Any] = {
            "start_us": round(US_PER_S * (trace.start_s - first_s)),
            "ttft_us": us[0],
            "gaps_us": [after - before for before, after in pairwise(us)],
        }
        if trace.step_tokens:
            told["steps"] = len(trace.step_tokens)
        found.append(told)
    return found


@dataclass(frozen=True)
class CellFigures:
    """What a cell's requests say: samples a request, in ms, and output tokens a second of the whole cell.

    `step_ms` is a request's time after its first token over the steps that gave the rest: with drafting a
    step gives several tokens, without it is TPOT.
    """

    ttft_ms: tuple[float, ...]
    tpot_ms: tuple[float, ...]
    itl_ms: tuple[float, ...]
    e2el_ms: tuple[float, ...]
    step_ms: tuple[float, ...]
    tokens_per_s: float


def figures(requests: Sequence[Mapping[str, Any]]) -> CellFigures:
    """The figures of a cell from what a journal keeps of its requests; no ITL where gaps were not kept."""
    ttft = [request["ttft_us"] for request in requests]
    after = [after_first(request) for request in requests]
    ends = [
        request["start_us"] + first + rest
        for request, first, (rest, _) in zip(requests, ttft, after, strict=True)
    ]
    return CellFigures(
        ttft_ms=tuple(each / US_PER_MS for each in ttft),
        tpot_ms=tuple(rest / tokens / US_PER_MS for rest, tokens in after),
        # tokens of one step arrive together, and are one gap
        itl_ms=tuple(gap / US_PER_MS for request in requests for gap in request.get("gaps_us", ()) if gap),
        e2el_ms=tuple((first + rest) / US_PER_MS for first, (rest, _) in zip(ttft, after, strict=True)),
        step_ms=tuple(
            rest / (request.get("steps") or tokens) / US_PER_MS
            for request, (rest, tokens) in zip(requests, after, strict=True)
        ),
        tokens_per_s=sum(1 + tokens for _, tokens in after) / (max(ends) / US_PER_S),
    )


def after_first(request: Mapping[str, Any]) -> tuple[int, int]:
    """Microseconds from a request's first token to its last, and the tokens that came in them."""
    if "gaps_us" in request:
        return sum(request["gaps_us"]), len(request["gaps_us"])
    return request["rest_us"], request["rest_tokens"]

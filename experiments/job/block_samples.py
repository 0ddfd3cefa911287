"""The raw samples of a block from what its requests showed. Pure.

The definitions are those of vLLM's serving benchmark (`vllm bench serve`); see `Metric`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from experiments.engines.port import GenerationRequest, GenerationTrace
from experiments.measurement.evidence import ALL_REQUESTS, Metric

GAPS_KEPT_MAX = 8192
"""Most gaps between tokens that are kept of a block. A block of 64 requests of 256 tokens has 16,320 of them,
and an experiment has hundreds of blocks; of a longer block every second, third … gap is kept, counted over
all of its requests, which says the same of their distribution."""

BlockSample = tuple[str, int, Metric, float]
"""Item, place in the order of the launch, metric, value."""


def block_samples(
    requests: Sequence[GenerationRequest], traces: Sequence[GenerationTrace], first: int
) -> list[BlockSample]:
    """The samples of a block, numbered from `first` on; one trace a request."""
    values = [
        *_of_requests(requests, traces),
        *((ALL_REQUESTS, *each) for each in throughput(requests, traces)),
    ]
    return [(item, first + place, metric, value) for place, (item, metric, value) in enumerate(values)]


def throughput(
    requests: Sequence[GenerationRequest], traces: Sequence[GenerationTrace]
) -> tuple[tuple[Metric, float], ...]:
    """What all requests together gave a second, from the start of the first to the last token of all."""
    wall_s = max(each.end_s for each in traces) - min(each.start_s for each in traces)
    output = sum(len(each.token_ids) for each in traces)
    prompts = sum(len(each.prompt_ids) for each in requests)
    return (
        (Metric.OUTPUT_TOKENS_PER_S, output / wall_s),
        (Metric.TOTAL_TOKENS_PER_S, (prompts + output) / wall_s),
        (Metric.REQUESTS_PER_S, len(traces) / wall_s),
    )


def gap_stride(traces: Sequence[GenerationTrace]) -> int:
    """Every which gap between tokens is kept of a block; 1 where all are."""
    return max(1, math.ceil(sum(len(_gaps_ms(trace)) for trace in traces) / GAPS_KEPT_MAX))


def _of_requests(
    requests: Sequence[GenerationRequest], traces: Sequence[GenerationTrace]
) -> Iterator[tuple[str, Metric, float]]:
    stride, seen = gap_stride(traces), 0
    for request, trace in zip(requests, traces, strict=True):
        gaps = _gaps_ms(trace)
        yield request.item, Metric.TTFT_MS, trace.ttft_ms
        for place in range(-seen % stride, len(gaps), stride):
            yield request.item, Metric.ITL_MS, gaps[place]
        seen += len(gaps)
        yield request.item, Metric.TPOT_MS, trace.tpot_ms
        yield request.item, Metric.E2EL_MS, trace.e2el_ms
        yield request.item, Metric.TOKENS_PER_S, trace.tokens_per_s
        for tokens in trace.step_tokens:
            yield request.item, Metric.STEP_TOKENS, float(tokens)


def _gaps_ms(trace: GenerationTrace) -> list[float]:
    """Gaps between tokens. Those that come together, of one step of drafting or joined by a server that reads
    late, have none between them, as in vLLM's benchmark."""
    return [gap for gap in trace.itl_ms if gap > 0]

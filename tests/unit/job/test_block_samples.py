"""What a block's requests showed becomes raw samples by the definitions of vLLM's serving benchmark."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.engines.port import GenerationRequest, GenerationTrace
from experiments.job.block_samples import GAPS_KEPT_MAX, BlockSample, block_samples, gap_stride, throughput
from experiments.measurement.evidence import ALL_REQUESTS, BLOCK_METRICS, Metric

TWO = [GenerationRequest("a", (1,) * 10, 3), GenerationRequest("b", (1,) * 30, 3)]
OVERLAPPING = [
    GenerationTrace((1, 2, 3), (0.2, 0.3, 0.5), start_s=100.0),
    GenerationTrace((4, 5, 6), (0.4, 0.5, 1.0), start_s=100.2),
]


def of(samples: Iterable[BlockSample], metric: Metric, item: str | None = None) -> list[float]:
    return [value for name, _, each, value in samples if each is metric and (item is None or name == item)]


def test_a_request_has_the_times_of_vllms_definitions() -> None:
    samples = block_samples(TWO, OVERLAPPING, 0)
    assert of(samples, Metric.TTFT_MS) == pytest.approx([200, 400])
    assert of(samples, Metric.TPOT_MS) == pytest.approx([150, 300])
    assert of(samples, Metric.ITL_MS, "b") == pytest.approx([100, 500])
    assert of(samples, Metric.E2EL_MS) == pytest.approx([500, 1000])


def test_throughput_is_that_of_all_requests_from_the_first_start_to_the_last_token() -> None:
    told = dict(throughput(TWO, OVERLAPPING))
    assert told[Metric.OUTPUT_TOKENS_PER_S] == pytest.approx(6 / 1.2)
    assert told[Metric.TOTAL_TOKENS_PER_S] == pytest.approx(46 / 1.2)
    assert told[Metric.REQUESTS_PER_S] == pytest.approx(2 / 1.2)
    samples = block_samples(TWO, OVERLAPPING, 0)
    assert {metric for name, _, metric, _ in samples if name == ALL_REQUESTS} == BLOCK_METRICS


def test_samples_are_numbered_on_from_those_before() -> None:
    samples = block_samples(TWO, OVERLAPPING, 7)
    assert [seq for _, seq, _, _ in samples] == list(range(7, 7 + len(samples)))


def test_with_drafting_gaps_are_between_steps() -> None:
    trace = GenerationTrace((1, 2, 3, 4), (0.1, 0.2, 0.2, 0.5), (2, 1), 0.0)
    samples = block_samples(TWO[:1], [trace], 0)
    assert of(samples, Metric.ITL_MS) == pytest.approx([100, 300])
    assert of(samples, Metric.STEP_TOKENS) == [2, 1]


@given(st.lists(st.integers(2, 3 * GAPS_KEPT_MAX), min_size=1, max_size=3))
def test_of_a_long_block_every_nth_gap_over_all_requests_is_kept(lengths: list[int]) -> None:
    requests = [GenerationRequest(str(place), (1,), length) for place, length in enumerate(lengths)]
    traces = [
        GenerationTrace((0,) * length, tuple(float(token + 1) ** 2 for token in range(length)))
        for length in lengths
    ]
    gaps = [1e3 * (after - before) for each in traces for before, after in pairwise(each.token_times_s)]
    kept = of(block_samples(requests, traces, 0), Metric.ITL_MS)
    assert kept == gaps[:: gap_stride(traces)]
    assert len(kept) <= GAPS_KEPT_MAX
    assert len(kept) == len(gaps) or len(kept) > GAPS_KEPT_MAX // 3

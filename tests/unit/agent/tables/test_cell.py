"""What a journal keeps of a cell gives the figures of vLLM's own definitions."""

import pytest

from agent.tables.cell import figures, kept, requests_of, warm_up
from agent.tables.grid import TableWorkload
from experiments.engines.port import GenerationTrace

WORKLOAD = TableWorkload(2, 16, 5, 4)


def test_figures_are_those_of_the_traces() -> None:
    traces = [
        GenerationTrace((1, 2, 3), (0.100, 0.105, 0.111), start_s=50.0),
        GenerationTrace((1, 2, 3), (0.200, 0.206, 0.212), start_s=50.1),
    ]
    found = figures(kept(traces))
    for each, name in ((found.ttft_ms, "ttft_ms"), (found.tpot_ms, "tpot_ms"), (found.e2el_ms, "e2el_ms")):
        assert each == pytest.approx([getattr(trace, name) for trace in traces])
    assert found.itl_ms == pytest.approx([5, 6, 6, 6])
    assert found.step_ms == found.tpot_ms
    assert found.tokens_per_s == pytest.approx(6 / 0.312)


def test_with_drafting_a_step_is_timed_and_not_a_token() -> None:
    trace = GenerationTrace((1, 2, 3, 4, 5), (0.1, 0.11, 0.11, 0.12, 0.12), step_tokens=(2, 2))
    found = figures(kept([trace]))
    assert found.step_ms == pytest.approx([10])
    assert found.tpot_ms == pytest.approx([5])
    assert found.itl_ms == pytest.approx([10, 10])


def test_prompts_are_the_same_for_a_seed_and_share_no_beginning() -> None:
    first, again = (requests_of(WORKLOAD, range(4096), 7, "") for _ in range(2))
    other = requests_of(WORKLOAD, range(4096), 8, "")
    assert first == again
    assert first[0].prompt_ids != other[0].prompt_ids
    assert len({request.prompt_ids[:4] for request in first}) == len(first) == WORKLOAD.requests
    assert all(len(request.prompt_ids) == 16 for request in first)


def test_each_length_is_warmed_up_and_as_many_at_once_as_the_load_serves() -> None:
    cells = [TableWorkload(1, 8, 4, 1), TableWorkload(16, 32, 4, 16)]
    served = list(warm_up(cells, range(100), most_at_once=4))
    assert [(len(requests), at_once, len(requests[0].prompt_ids)) for requests, at_once in served] == [
        (1, 1, 8),
        (1, 1, 32),
        (4, 4, 8),
    ]

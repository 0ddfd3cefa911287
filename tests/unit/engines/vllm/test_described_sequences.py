"""The requests at once that are told are those that vLLM lets run, be they fewer than asked for."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from experiments.engines.vllm.describe import _max_sequences


@pytest.mark.parametrize(
    ("scheduler", "told"),
    [
        (SimpleNamespace(max_num_seqs=256), 256),  # 0.26, which has no such limit
        (SimpleNamespace(max_num_seqs=256, max_num_active_seqs=None), 256),
        (SimpleNamespace(max_num_seqs=256, max_num_active_seqs=128), 128),
    ],
)
def test_the_requests_at_once_are_those_that_may_run(scheduler: SimpleNamespace, told: int) -> None:
    assert _max_sequences(scheduler) == told

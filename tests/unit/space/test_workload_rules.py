"""A workload takes out of the space what could not serve its requests, and the default follows."""

import pytest

from configs.errors import UsageError
from experiments.space.legality import ModelFacts, legal_levers
from experiments.space.loading import load_space
from experiments.space.workload_rules import MAX_MODEL_LEN, MAX_SEQUENCES, not_served_at

FACTS = {
    "layer_types": ("linear_attention",) * 4 + ("full_attention",) * 4,
    "input_sizes": {},
    "mtp_layers": 1,
}


def left(concurrency: int, context_tokens: int) -> dict[str, tuple[object, object]]:
    space = load_space("vllm")
    gone = not_served_at(space, concurrency, context_tokens)
    kept, _ = legal_levers(space, ModelFacts(**FACTS, not_served=gone))  # type: ignore[arg-type]
    return {
        name: (kept.knob(name).values, kept.knob(name).default) for name in (MAX_SEQUENCES, MAX_MODEL_LEN)
    }


def test_one_request_at_once_that_is_short_leaves_all() -> None:
    assert not_served_at(load_space("vllm"), 1, 2047) == {}


def test_no_fewer_sequences_than_requests_at_once_and_the_default_is_the_nearest_left() -> None:
    assert left(64, 512)[MAX_SEQUENCES] == ((64,), 64)
    assert left(4, 512)[MAX_SEQUENCES] == ((4, 16, 64), 16)


def test_a_sequence_and_a_token_more_must_fit() -> None:
    assert left(1, 2048)[MAX_MODEL_LEN] == ((4096, 8192, 32768), 4096)
    assert left(1, 8000)[MAX_MODEL_LEN] == ((8192, 32768), 8192)


def test_more_at_once_than_any_value_serves_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match=r"serving\.max_sequences: The workload has 65 requests at once"):
        left(65, 512)

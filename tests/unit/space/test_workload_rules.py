"""A workload takes out of the space what could not serve its requests, and the default follows."""

import pytest

from configs.errors import UsageError
from experiments.space.legality import ModelFacts, legal_levers
from experiments.space.loading import load_space
from experiments.space.workload_rules import (
    BATCH_TOKENS,
    MAX_MODEL_LEN,
    MAX_SEQUENCES,
    not_served_at,
    same_at,
)

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


@pytest.mark.parametrize(
    ("concurrency", "prompt_tokens", "same", "offered"),
    [
        (1, 128, (2048, 4096, 8192, 16384), ("auto",)),
        (1, 2032, (2048, 4096, 8192, 16384), ("auto",)),
        (1, 2033, (8192, 16384), ("auto", 2048, 4096)),
        (4, 512, (8192, 16384), ("auto", 2048, 4096)),
        (16, 512, (), ("auto", 2048, 4096, 8192, 16384)),
        (64, 3840, (), ("auto", 2048, 4096, 8192, 16384)),
    ],
)
def test_more_room_in_a_step_than_all_requests_ask_for_is_not_proposed(
    concurrency: int, prompt_tokens: int, same: tuple[int, ...], offered: tuple[object, ...]
) -> None:
    """A step has the prompts of all at most, and up to 16 tokens of each that decodes."""
    space = load_space("vllm")
    found = same_at(space, concurrency, prompt_tokens)
    assert tuple(value for _, value in found) == same
    kept, told = legal_levers(space, ModelFacts(**FACTS, same=found))  # type: ignore[arg-type]
    knob = kept.knob(BATCH_TOKENS)
    assert (knob.values, knob.given, knob.same) == (offered, same, same)
    assert all(knob.parse(str(value)) == value for value in same), "who names one gets it"
    assert [each.value for each in told if each.same] == list(same)


def test_what_a_step_has_room_for_is_compared_with_what_it_does_the_same_as() -> None:
    space = load_space("vllm")
    assert set(same_at(space, 1, 128).values()) == {
        "What the one request of the workload can ask of a step fits into vLLM's own choice, auto, too."
    }
    assert set(same_at(space, 4, 512).values()) == {
        "What the 4 requests at once of the workload can ask of a step fits into 4096 tokens too."
    }
    assert same_at(load_space("reference"), 1, 128) == {}

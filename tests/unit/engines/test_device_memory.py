"""What a launch takes of a device follows from the model's shape, and a refusal says what would fit."""

from dataclasses import replace
from itertools import pairwise

import pytest

from configs.models import EVERY_EXPERT, PartKind, load_model_profile
from configs.weight_formats import BFLOAT16, WEIGHT_FORMATS
from experiments.engines.device_memory import (
    Held,
    bytes_by_part,
    launch_bytes,
    longest_context,
    mlp_token_bytes,
    refusal,
)

GB = 10**9
MIB = 2**20
SIZES = ("0.8b", "2b", "4b", "9b", "27b", "35b-a3b")


def held(size: str, weights: str = "bfloat16", context: int = 512, **more: object) -> Held:
    found = Held(load_model_profile(f"qwen3.5-{size}"), WEIGHT_FORMATS[weights], context)
    return replace(found, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "gigabytes"), [("0.8b", 1.504), ("4b", 8.412), ("9b", 17.908), ("27b", 53.80)]
)
def test_in_bfloat16_every_published_parameter_takes_two_bytes(size: str, gigabytes: float) -> None:
    assert sum(held(size).weight_bytes.values()) / GB == pytest.approx(gigabytes, rel=2e-3)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("weights", sorted(WEIGHT_FORMATS))
def test_what_is_held_is_what_a_step_reads_and_the_rest_of_the_embedding(size: str, weights: str) -> None:
    """A head that is tied in the type of the embedding is read whole and held once."""
    one = held(size, weights)
    profile, form = one.profile, one.weights
    embedding = profile.vocabulary * profile.hidden * form.other_bits / 8
    row = profile.hidden * form.other_bits / 8
    shared = embedding if profile.tied_embeddings and form.head_bits == form.other_bits else 0
    expected = profile.weight_bytes_per_step(form, EVERY_EXPERT) - row + embedding - shared
    assert sum(one.weight_bytes.values()) == pytest.approx(expected, abs=len(PartKind))


def test_the_published_bytes_of_a_step_are_those_of_the_parts() -> None:
    """9B: 15.87 GB a step in bfloat16, 5.64 with 4 bits in groups of 128; the embedding is 2.03 beside."""
    for weights, step in (("bfloat16", 15.87), ("fp8", 8.96), ("w4_g128", 5.64), ("w4_g32", 6.05)):
        found = held("9b", weights).weight_bytes
        assert (sum(found.values()) - found[PartKind.EMBEDDING]) / GB == pytest.approx(step, abs=0.0065)
        assert found[PartKind.EMBEDDING] / GB == pytest.approx(2.034, abs=0.001)


def test_a_head_for_drafting_counts_where_it_drafts_and_keeps_its_sixteen_bits() -> None:
    assert PartKind.MTP not in held("9b").weight_bytes
    for weights in ("bfloat16", "w4_g128"):
        assert held("9b", weights, mtp=True).weight_bytes[PartKind.MTP] == pytest.approx(486.6e6, rel=5e-3)
    assert held("9b", mtp=True).cache_bytes == pytest.approx(held("9b").cache_bytes * 9 / 8)


@pytest.mark.parametrize("size", ["4b", "9b"])
def test_cache_and_states_are_the_published_ones(size: str) -> None:
    assert held(size, context=1000).cache_bytes == 1000 * 32_768
    assert held(size, context=1000, item_bytes=4).cache_bytes == 2000 * 32_768
    assert held(size, context=1000, cached=2024).cache_bytes == 2024 * 32_768
    window = 24 * 3 * 8192 * 2
    assert held(size).state_bytes == 2 * (48 * MIB + window)


@pytest.mark.parametrize(("draft_tokens", "megabytes"), [(7, 453), (15, 856)])
def test_states_of_drafting_are_as_many_as_a_step_reads_and_writes(
    draft_tokens: int, megabytes: float
) -> None:
    found = held("9b", draft_tokens=draft_tokens)
    windows = (draft_tokens + 2) * 24 * 3 * 8192 * 2
    assert (found.state_bytes - windows) / 1e6 == pytest.approx(megabytes, abs=0.5)


def test_windows_that_keep_what_may_be_taken_back_are_longer_by_as_much() -> None:
    plain, longer = held("9b", draft_tokens=15), held("9b", draft_tokens=15, window_tokens=15)
    assert longer.state_bytes - plain.state_bytes == 17 * 24 * 15 * 8192 * 2


def test_a_drafter_brings_its_weights_cache_and_states() -> None:
    own = held("0.8b")
    parts = bytes_by_part(held("9b", drafter=own))
    assert parts["its drafter"] == sum(own.weight_bytes.values()) + own.cache_bytes + own.state_bytes
    assert bytes_by_part(held("9b", drafter_bytes=5))["its drafter"] == 5
    assert "its drafter" not in bytes_by_part(held("9b"))


def test_more_of_anything_takes_more() -> None:
    steps = [
        held("9b", "w4_g128"),
        held("9b", "w4_g32"),
        held("9b", "fp8"),
        held("9b"),
        held("9b", context=8192),
        held("9b", context=8192, prefill=8192),
        held("9b", context=8192, prefill=8192, draft_tokens=3),
        held("9b", context=8192, prefill=8192, draft_tokens=3, mtp=True),
        held("27b", context=8192, prefill=8192, draft_tokens=3, mtp=True),
    ]
    assert all(launch_bytes(less) < launch_bytes(more) for less, more in pairwise(steps))


def refused(size: str, free: float, context: int = 512, launches: int = 1, total: float = 24.0) -> str | None:
    return refusal(
        "cuda:0",
        lambda tokens: held(size, context=tokens),
        context,
        free_bytes=round(free * GB),
        total_bytes=round(total * GB),
        launches=launches,
        choices={
            "8 bits": held(size, "fp8", context),
            "4 bits in groups of 128": held(size, "w4_g128", context),
        },
    )


def test_what_fits_is_not_refused_and_one_byte_less_is() -> None:
    needed = launch_bytes(held("9b"))
    asked = {"context": 512, "total_bytes": needed, "launches": 1, "choices": {}}
    shape = lambda tokens: held("9b", context=tokens)  # noqa: E731
    assert refusal("cuda:0", shape, free_bytes=needed, **asked) is None  # type: ignore[arg-type]
    assert refusal("cuda:0", shape, free_bytes=needed - 1, **asked) is not None  # type: ignore[arg-type]


def test_a_refusal_tells_what_is_needed_what_is_free_and_which_bits_would_fit() -> None:
    told = refused("9b", free=23.5, launches=2)
    assert told is not None
    assert "2 launches side by side need 41." in told
    assert "17.91 of weights in bfloat16" in told
    assert "23.5 of its 24.0 GB are free" in told
    assert told.endswith("what would fit: 4 bits in groups of 128.")
    assert told.count(". ") == 0
    assert "\n" not in told


def test_a_long_context_may_be_what_does_not_fit() -> None:
    told = refused("9b", free=24.0, context=200_000)
    assert told is not None
    limit = longest_context(lambda tokens: held("9b", context=tokens), 200_000, 24 * GB)
    assert f"a context of at most {limit:,} tokens" in told
    assert launch_bytes(held("9b", context=limit)) <= 24 * GB < launch_bytes(held("9b", context=limit + 1))


def test_who_holds_the_device_is_told_where_an_empty_one_would_do() -> None:
    told = refused("9b", free=2.0)
    assert told is not None
    assert told.endswith("what would fit: the device without what else holds 22.0 GB of it.")


def test_where_nothing_fits_it_says_so() -> None:
    told = refused("27b", free=12.0, total=12.0)
    assert told is not None
    assert told.endswith("what would fit: nothing smaller, so take a device with more memory.")


def test_the_format_of_weights_is_named_as_it_is_served() -> None:
    assert f"weights in {BFLOAT16.name}" in bytes_by_part(held("9b"))


def test_a_token_s_tensors_in_an_mlp_are_those_of_all_that_it_goes_through() -> None:
    """Of the shared expert and eight others, each 512 wide, and what the eight give, 2048 each."""
    mixture, dense = (load_model_profile(f"qwen3.5-{size}") for size in ("35b-a3b", "9b"))
    assert mlp_token_bytes(mixture, 2) == 2 * (3 * 9 * 512 + 8 * 2048)
    assert mlp_token_bytes(dense, 2) == 2 * 3 * dense.intermediate

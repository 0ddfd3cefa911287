"""What is named as what would fit does fit by the plan, is legal, changes one knob and changes it least."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent.proposers.port import nothing_refused
from configs.errors import UsageError
from configs.models import load_model_profile
from experiments.engines.launch_memory import Asked, launch_parts, needed_bytes
from experiments.engines.single_changes import TRIED, SingleChange, Tried, sentence, single_changes
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space

SPACE = load_space("vllm")
CARDS_GB = (8, 12, 16, 24)
LARGE: dict[str, KnobValue] = {
    "serving.max_sequences": 64,
    "serving.max_model_len": 32768,
    "drafting.method": "mtp",
    "drafting.draft_tokens": 3,
}
PACKED: dict[str, KnobValue] = {"quantization.method": "rtn", "quantization.bits": 8}


def plan_of(size: str, card_gb: int) -> Callable[[Configuration], int]:
    profile, asked = load_model_profile(f"qwen3.5-{size}"), Asked(640, card_bytes=card_gb * 10**9)
    return lambda each: needed_bytes(launch_parts(profile, each, asked))


def tried_on(card_gb: int, size: str, knobs: dict[str, KnobValue]) -> Tried:
    configuration = SPACE.configuration(knobs)
    return single_changes(SPACE, configuration, plan_of(size, card_gb), card_gb * 10**9, nothing_refused)


@pytest.mark.parametrize("card_gb", CARDS_GB)
@pytest.mark.parametrize("size", ["0.8b", "4b", "9b", "27b"])
@pytest.mark.parametrize("knobs", [{}, LARGE, PACKED, LARGE | PACKED])
def test_each_change_that_is_named_fits_and_a_smaller_one_of_its_knob_does_not(
    card_gb: int, size: str, knobs: dict[str, KnobValue]
) -> None:
    start, needed, usable = SPACE.configuration(knobs), plan_of(size, card_gb), card_gb * 10**9
    tried = tried_on(card_gb, size, knobs)
    order = [knob for knob, _ in TRIED]
    assert [each.knob for each in tried.fitting] == [
        each for each in order if each in {way.knob for way in tried.fitting}
    ]
    for way in tried.fitting:
        changed = SPACE.with_change(start, {way.knob: way.value})
        assert SPACE.is_legal(changed)
        assert way.needed_bytes == needed(changed) <= usable
        if isinstance(way.value, int):
            between = [each for each in SPACE.knob(way.knob).values if way.value < each < start[way.knob]]  # type: ignore[operator]
            assert all(needed(SPACE.with_change(start, {way.knob: each})) > usable for each in between)
    named = {way.knob for way in tried.fitting}
    for knob in ("serving.max_sequences", "serving.max_model_len", "drafting.draft_tokens"):
        now = start.get(knob)
        smaller = [each for each in SPACE.knob(knob).values if now is not None and each < now]  # type: ignore[operator]
        fits = [each for each in smaller if needed(SPACE.with_change(start, {knob: each})) <= usable]
        assert (knob in named) == bool(fits)


def test_a_card_of_8_gb_holds_a_4b_in_fewer_bits_alone() -> None:
    assert [way.knob for way in tried_on(8, "4b", {}).fitting] == ["quantization.method"]


def test_on_12_gb_a_4b_fits_with_one_sequence_in_fewer_bits_or_without_graphs() -> None:
    """12.6 GB are needed, 1.4 of them for the cache and the logits of 16 sequences and 0.8 for graphs."""
    assert [(way.knob, way.value) for way in tried_on(12, "4b", {}).fitting] == [
        ("serving.max_sequences", 1),
        ("quantization.method", "awq"),
        ("serving.graph_mode", "none"),
    ]


def test_where_no_change_is_enough_none_is_named_and_what_was_tried_is() -> None:
    tried = tried_on(8, "27b", {})
    assert tried.fitting == ()
    told = sentence(tried, 8 * 10**9)
    assert told.startswith("By the plan no single change (of serving.max_sequences, serving.max_model_len, ")
    assert told.endswith("fits: change several at once, or take a smaller model or a larger card.")


def test_what_is_refused_all_the_same_is_neither_named_nor_counted_as_tried() -> None:
    def no_awq(each: Configuration) -> str | None:
        return "Not here." if each.get("quantization.method") == "awq" else None

    def nothing_but_16_bits(each: Configuration) -> str | None:
        return "Not here." if each.get("quantization.method") != "none" else None

    configuration, needed = SPACE.configuration({}), plan_of("4b", 8)
    found = single_changes(SPACE, configuration, needed, 8 * 10**9, no_awq)
    assert [(way.knob, way.value) for way in found.fitting] == [("quantization.method", "rtn")]
    none = single_changes(SPACE, configuration, needed, 8 * 10**9, nothing_but_16_bits)
    assert none.fitting == ()
    assert "quantization.method" not in none.knobs


def test_a_configuration_of_another_space_is_refused() -> None:
    other = Configuration.of({"serving.threads": 2})
    with pytest.raises(UsageError):
        single_changes(SPACE, other, lambda each: 0, 1, nothing_refused)


def test_the_sentence_has_the_figures_of_each() -> None:
    ways = (
        SingleChange("serving.max_sequences", 4, 9_840_000_000),
        SingleChange("quantization.method", "awq", 8_100_000_000),
    )
    tried = Tried(ways, ("serving.max_sequences", "quantization.method"))
    assert sentence(tried, 12 * 10**9) == (
        "What would fit by the plan: 9.8 GB of 12.0 GB with serving.max_sequences=4; 8.1 GB with "
        "quantization.method=awq."
    )
    assert "serving.max_sequences=4 in each;" in sentence(tried, 24 * 10**9, launches=2)
    assert sentence(Tried((), ()), 1).startswith("By the plan nothing smaller fits")

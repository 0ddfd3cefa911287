"""Which levers a change is of: what was chosen, not what came up or fell away with it."""

from __future__ import annotations

import pytest

from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space
from experiments.space.space import Space

NGRAM = {"drafting.method": "ngram"}
WITH_SCHEDULING = {"drafting.method": "mtp", "serving.async_scheduling": "off"}
FOUR_BITS = {"quantization.method": "awq"}


@pytest.fixture(scope="module")
def space() -> Space:
    return load_space("vllm")


def levers(space: Space, before: dict[str, KnobValue], after: dict[str, KnobValue]) -> tuple[str, ...]:
    return space.levers_between(space.configuration(before), space.configuration(after))


def test_drafting_that_leaves_its_output_head_to_the_engine_is_drafting(space: Space) -> None:
    mtp = {"drafting.method": "mtp"}
    assert levers(space, {}, mtp) == ("drafting",)
    assert levers(space, mtp, {}) == ("drafting",)
    assert levers(space, {**mtp, "drafting.lm_head": "fp8"}, NGRAM) == ("drafting",)


def test_an_output_head_that_is_chosen_is_a_lever_too(space: Space) -> None:
    copied: dict[str, KnobValue] = {"drafting.method": "mtp", "drafting.lm_head": "fp8"}
    assert levers(space, {}, copied) == ("drafting", "draft_lm_head")
    assert levers(space, {"drafting.method": "mtp"}, copied) == ("draft_lm_head",)


def test_scheduling_that_is_chosen_is_scheduling_too(space: Space) -> None:
    assert levers(space, NGRAM, WITH_SCHEDULING) == ("drafting", "scheduling")
    assert levers(space, {}, WITH_SCHEDULING) == ("drafting", "scheduling")
    assert levers(space, {}, {"serving.async_scheduling": "off"}) == ("scheduling",)


def test_quantizing_that_leaves_the_kernel_to_the_engine_is_quantization(space: Space) -> None:
    assert levers(space, {}, FOUR_BITS) == ("quantization",)
    chosen = next(each for each in space.knob("serving.linear_backend").values if each != "auto")
    assert set(levers(space, {}, {**FOUR_BITS, "serving.linear_backend": chosen})) == {
        "quantization",
        "kernel",
    }


def test_a_knob_that_one_of_them_lacks_for_no_other_change_is_one_of_its_own(space: Space) -> None:
    before = space.configuration({})
    without = Configuration.of({name: value for name, value in before.items() if name != "serving.dtype"})
    assert space.levers_between(without, before) == ("dtype",)
    scheduled = {name: value for name, value in before.items() if name != "serving.async_scheduling"}
    assert space.levers_between(Configuration.of(scheduled), before) == ("scheduling",)

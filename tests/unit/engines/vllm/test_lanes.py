"""Lanes are as many as a machine and its device bear, and copies as many as fit, or it is said why not."""

from __future__ import annotations

import pytest

from configs.models import load_model_profile
from experiments.engines.kernel_timings import HEAD, Product, products_of
from experiments.engines.vllm.kernel_timer import machine_for
from experiments.engines.vllm.lanes import (
    MOST_LANES,
    Machine,
    lane_bytes,
    lanes_for,
    turn_bytes,
)
from experiments.engines.vllm.product_copies import (
    MOST_COPIES,
    TooLittleMemory,
    copies_needed,
    copies_that_fit,
)

NINE = products_of(load_model_profile("qwen3.5-9b"))
SMALL = products_of(load_model_profile("qwen3.5-4b"))
"""Products of a model whose output head is its embedding, so that none is large."""

LOTS = 2**40
GB, MIB = 10**9, 2**20
TAKEN = 700 * 10**6
"""What a desktop and the driver may hold of a card."""


def lanes(card_gb: float, products: tuple[Product, ...] = NINE) -> int:
    return lanes_for("cuda:0", Machine(64, LOTS, round(card_gb * GB) - TAKEN), products)


@pytest.mark.parametrize(("card_gb", "of_nine", "of_small"), [(8, 2, 4), (12, 4, 4), (24, 4, 4), (80, 4, 4)])
def test_lanes_are_as_many_as_a_cards_free_memory_bears(card_gb: float, of_nine: int, of_small: int) -> None:
    assert (lanes(card_gb), lanes(card_gb, SMALL)) == (of_nine, of_small)
    most = of_nine * lane_bytes(NINE) + turn_bytes(NINE)
    assert most <= card_gb * GB - TAKEN, "together they fit"


def test_a_card_of_which_others_hold_most_has_one_lane() -> None:
    for free in (0, GB, 3 * GB):
        assert lanes_for("cuda:0", Machine(64, LOTS, free), NINE) == 1
    assert lanes_for("cuda:0", Machine(64, LOTS, 6 * GB), NINE) < lanes(80)


def test_lanes_are_as_many_as_the_machine_bears() -> None:
    assert lanes_for("cpu", Machine(64, LOTS, None), NINE) == 1
    assert lanes_for("cuda:0", Machine(64, LOTS, None), NINE) == 1, "what is not known is taken for little"
    assert lanes_for("cuda:0", Machine(64, LOTS, LOTS), NINE) == MOST_LANES
    cores = [lanes_for("cuda:0", Machine(each, LOTS, LOTS), NINE) for each in (1, 4, 8, 12)]
    assert cores == [1, 1, 2, 3]
    assert lanes_for("cuda:0", Machine(64, 8 * 2**30, LOTS), NINE) == 1


def test_the_largest_product_counts_whole_for_one_lane_and_packed_for_each() -> None:
    head = next(each for each in NINE if each.part == HEAD)
    size = 2 * head.inputs * head.outputs
    assert size > 2 * 10**9
    assert turn_bytes(NINE) == size
    assert lane_bytes(NINE) == 2**30 + size // 2
    assert turn_bytes(SMALL) >= 4 * 128 * MIB, "smaller ones have many copies"
    assert (turn_bytes(()), lane_bytes(())) == (0, 2**30)


def test_without_a_driver_the_memory_of_a_device_is_not_known() -> None:
    machine = machine_for("cuda:99")
    assert machine.device_free_bytes is None
    assert machine.cores > 0 < machine.free_bytes


def test_copies_are_more_than_a_cache_holds_and_never_none() -> None:
    assert copies_needed(50 * MIB, 60 * MIB) == 5
    assert copies_needed(500 * MIB, 60 * MIB) == 1
    assert copies_needed(1, 60 * MIB) == MOST_COPIES
    assert copies_needed(0, 60 * MIB) == MOST_COPIES


@pytest.mark.parametrize(("free_mib", "copies"), [(None, 5), (300, 5), (299, 4), (200, 3)])
def test_copies_are_fewer_where_memory_is_short(free_mib: int | None, copies: int) -> None:
    """Of 50 MiB each, with three times that while one is prepared; the first is there."""
    free = None if free_mib is None else free_mib * MIB
    assert copies_that_fit(50 * MIB, 60 * MIB, free) == copies


def test_where_copies_would_be_read_from_the_cache_it_is_refused_with_the_figures() -> None:
    with pytest.raises(TooLittleMemory) as told:
        copies_that_fit(50 * MIB, 60 * MIB, 199 * MIB)
    assert str(told.value) == (
        "not enough memory to time it: 209 MB of the device are free, and of its weights of 52.4 MB 3 copies "
        "are needed, or they would be read from the cache of 63 MB."
    )


def test_what_is_larger_than_the_cache_needs_no_further_copy() -> None:
    assert copies_that_fit(500 * MIB, 60 * MIB, 0) == 1

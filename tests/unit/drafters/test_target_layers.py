"""Which layers a drafter reads, and where they are after depth pruning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.drafters.dflash.target_layers import distinct_places, remapped_layer_ids, spread_layers

LAYERS = 24


def test_a_whole_target_leaves_the_layers_where_they_are() -> None:
    assert remapped_layer_ids((1, 3, 6), range(8)) == (1, 3, 6)


def test_a_removed_layer_is_replaced_by_the_nearest_earlier_one_at_its_new_place() -> None:
    assert remapped_layer_ids((1, 3, 6), (0, 1, 2, 5, 6, 7)) == (1, 2, 4)


def test_without_an_earlier_layer_the_first_is_read() -> None:
    assert remapped_layer_ids((0, 1), (2, 3)) == (0, 0)


def test_a_target_without_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="kept_layers is empty"):
        remapped_layer_ids((1,), ())


def test_places_that_fall_together_are_read_once() -> None:
    assert distinct_places((2, 0, 2)) == ((0, 2), (1, 0, 1))


@given(
    st.sets(st.integers(0, LAYERS - 1), min_size=1).map(sorted),
    st.sets(st.integers(0, LAYERS - 1), min_size=1).map(sorted),
)
def test_remapping_keeps_the_order_and_names_kept_layers_not_later_than_the_wanted(
    wanted: list[int], kept: list[int]
) -> None:
    places = remapped_layer_ids(wanted, kept)
    assert list(places) == sorted(places)
    for layer, place in zip(wanted, places, strict=True):
        earlier = [each for each in kept if each <= layer]
        assert kept[place] == (earlier[-1] if earlier else kept[0])
    distinct, indices = distinct_places(places)
    assert tuple(distinct[index] for index in indices) == places


@given(st.integers(1, 96), st.integers(1, 8))
def test_spread_layers_are_layers_of_the_target_each_once(layers: int, count: int) -> None:
    chosen = spread_layers(layers, count)
    assert 1 <= len(chosen) <= count
    assert list(chosen) == sorted(set(chosen))
    assert chosen[0] >= 0
    assert chosen[-1] < layers


def test_the_reference_models_layers_are_spread_from_the_second_to_the_last_but_one() -> None:
    assert spread_layers(12, 5) == (1, 3, 6, 8, 10)

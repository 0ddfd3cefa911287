from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.engines.port import Infeasible
from experiments.space.configuration import KnobValue
from experiments.stages.pruning.choosing import (
    RESTRICTIONS,
    Choice,
    choose_in_rounds,
    choose_layers,
    may_go_next,
)

KINDS = st.lists(st.sampled_from(["linear_attention", "full_attention"]), min_size=1, max_size=24)
CHOICES = st.builds(Choice, st.integers(1, 24), st.sampled_from(sorted(RESTRICTIONS)))


@pytest.mark.parametrize("layers", ["banana", 1.0, True])
def test_layers_that_are_no_whole_number_are_refused_with_what_they_may_be(layers: KnobValue) -> None:
    with pytest.raises(Infeasible, match=f"is {layers!r}; it must be a whole number from 1 on") as told:
        Choice.of(layers, "any")
    assert told.value.kind == "illegal"
    assert Choice.of(2, "gdn") == Choice(2, "gdn")


def most(kinds: list[str], restrict: str) -> int:
    return sum(max(0, kinds.count(kind) - 1) for kind in RESTRICTIONS[restrict])


@given(KINDS, CHOICES, st.randoms())
def test_so_many_allowed_layers_go_and_one_of_each_kind_stays(
    kinds: list[str], choice: Choice, random: Random
) -> None:
    scores = [random.random() for _ in kinds]
    if choice.layers_removed > most(kinds, choice.restrict):
        with pytest.raises(Infeasible, match="can't be taken out"):
            choose_layers(scores, kinds, choice)
        return
    chosen = choose_layers(scores, kinds, choice)
    allowed = RESTRICTIONS[choice.restrict]
    assert len(chosen) == choice.layers_removed
    assert list(chosen) == sorted(set(chosen))
    assert {kinds[index] for index in chosen} <= set(allowed)
    left = [kind for index, kind in enumerate(kinds) if index not in chosen]
    assert set(left) == set(kinds)
    for stays in set(range(len(kinds))) - set(chosen):
        if kinds[stays] in allowed and left.count(kinds[stays]) > 1:
            assert all(scores[gone] <= scores[stays] for gone in chosen)
    assert choose_layers(scores, kinds, choice) == chosen


@given(KINDS, CHOICES, st.randoms())
def test_scoring_anew_never_takes_the_last_of_a_kind_and_each_round_takes_the_least(
    kinds: list[str], choice: Choice, random: Random
) -> None:
    if choice.layers_removed > most(kinds, choice.restrict):
        return
    asked: list[tuple[int, ...]] = []

    def rescore(gone: tuple[int, ...], candidates: tuple[int, ...]) -> Mapping[int, float]:
        asked.append(gone)
        assert candidates == may_go_next(kinds, gone, choice.restrict)
        return {index: random.random() for index in candidates}

    rounds = choose_in_rounds(kinds, choice, rescore)
    removed = [each.removed for each in rounds]
    assert asked == [tuple(removed[:number]) for number in range(choice.layers_removed)]
    assert len(set(removed)) == choice.layers_removed
    assert all(each.scores[each.removed] == min(each.scores.values()) for each in rounds)
    assert {kinds[index] for index in range(len(kinds)) if index not in removed} == set(kinds)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=12), st.data())
def test_greedy_on_scores_that_add_chooses_what_one_scoring_does(
    weights: list[int], data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, len(weights) - 1))
    kinds = ["linear_attention"] * len(weights)

    def rescore(gone: tuple[int, ...], candidates: tuple[int, ...]) -> Mapping[int, float]:
        return {index: sum(weights[each] for each in (*gone, index)) for index in candidates}

    greedy = choose_in_rounds(kinds, Choice(count, "any"), rescore)
    assert tuple(sorted(each.removed for each in greedy)) == choose_layers(
        weights, kinds, Choice(count, "any")
    )


def test_greedy_escapes_two_layers_that_stand_in_for_each_other() -> None:
    """Layers 0 and 1 do the same: either alone costs nothing, both together cost the most."""

    def rescore(gone: tuple[int, ...], candidates: tuple[int, ...]) -> Mapping[int, float]:
        return {index: 9.0 if {0, 1} <= {*gone, index} else float(index > 1) for index in candidates}

    kinds = ["full_attention"] * 4
    alone = [rescore((), (index,))[index] for index in range(4)]
    assert choose_layers(alone, kinds, Choice(2, "any")) == (0, 1)
    assert [each.removed for each in choose_in_rounds(kinds, Choice(2, "any"), rescore)] == [0, 2]


def test_ties_go_to_the_earlier_layer() -> None:
    assert choose_layers([0.5] * 4, ["linear_attention"] * 4, Choice(2, "any")) == (0, 1)


def test_an_unknown_restriction_is_told() -> None:
    with pytest.raises(Infeasible, match="'mamba'; it is one of any, gdn, attention"):
        choose_layers([0.5] * 4, ["linear_attention"] * 4, Choice(1, "mamba"))

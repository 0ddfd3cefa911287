"""Laws of spaces, on random spaces with nested conditions and values of mixed types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.errors import UsageError
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import Knob, is_among, same_value, written
from experiments.space.space import Space

VALUE_SETS: tuple[tuple[KnobValue, ...], ...] = (
    (False, True),
    (1, 2, 4),
    (0.0, 0.5),
    ("none", "depth"),
    ("only",),
    (True, 2, 2.5, "text"),
)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    knobs: list[Knob] = []
    for index in range(draw(st.integers(1, 6))):
        values = draw(st.sampled_from(VALUE_SETS))
        parents = draw(st.lists(st.sampled_from(knobs), max_size=2, unique=True)) if knobs else []
        when = tuple(
            (p.name, tuple(draw(st.lists(st.sampled_from(p.values), min_size=1, unique_by=written))))
            for p in parents
        )
        default = draw(st.sampled_from(values))
        also = {"also": r"user:\w+", "also_like": "user:NAME"} if draw(st.booleans()) else {}
        knobs.append(Knob(f"group.knob{index}", values, default, f"lever{index % 3}", when, **also))
    return Space(tuple(draw(st.permutations(knobs))))


@st.composite
def spaces_with_a_point(draw: st.DrawFn) -> tuple[Space, Configuration]:
    space = draw(spaces())
    chosen: dict[str, KnobValue] = {}
    for knob in space.in_order:
        if knob.unmet(chosen) is None:
            held = knob.values if knob.also is None else (*knob.values, "user:mine")
            chosen[knob.name] = draw(st.sampled_from(held))
    return space, space.configuration(chosen)


@given(spaces())
def test_every_point_is_legal_none_comes_twice_and_the_size_counts_them(space: Space) -> None:
    points = list(space.points())
    assert all(space.is_legal(point) for point in points)
    assert len({point.digest for point in points}) == len(points) == space.size


@given(spaces_with_a_point())
def test_a_legal_configuration_is_its_own_canonical_form(case: tuple[Space, Configuration]) -> None:
    space, point = case
    assert space.configuration(dict(point)) == point
    assert space.with_change(point, {}) == point
    assert {knob.name for knob in space.active(point)} == set(point)


@given(spaces_with_a_point(), st.data())
def test_changing_an_active_knob_stays_legal_and_keeps_what_is_still_active(
    case: tuple[Space, Configuration], data: st.DataObject
) -> None:
    space, point = case
    knob = data.draw(st.sampled_from(space.active(point)))
    value = data.draw(st.sampled_from(knob.values))
    changed = space.with_change(point, {knob.name: value})
    assert space.is_legal(changed)
    assert changed[knob.name] == value
    assert type(changed[knob.name]) is type(value)
    for name in changed:
        if name != knob.name and name in point:
            assert changed[name] == point[name]
        elif name != knob.name:
            assert changed[name] == space.knob(name).default


@given(spaces_with_a_point())
def test_neighbours_are_legal_distinct_and_one_choice_away(case: tuple[Space, Configuration]) -> None:
    space, point = case
    neighbours = space.neighbours(point)
    assert len({n.digest for n in neighbours} | {point.digest}) == len(neighbours) + 1
    others = [sum(not same_value(v, point[knob.name]) for v in knob.values) for knob in space.active(point)]
    assert len(neighbours) == sum(others)
    for neighbour in neighbours:
        assert space.is_legal(neighbour)
        chosen = [
            change.knob
            for change in point.changes_to(neighbour)
            if change.after is not None
            and change.before is not None
            and space.with_change(point, {change.knob: change.after}) == neighbour
        ]
        assert chosen, "no single choice leads there"
    assert space.neighbours(point) == neighbours


@given(spaces_with_a_point(), st.data())
def test_an_inactive_knob_is_refused_with_its_condition(
    case: tuple[Space, Configuration], data: st.DataObject
) -> None:
    space, point = case
    inactive = [knob for knob in space.knobs if knob.name not in point]
    if not inactive:
        return
    knob = data.draw(st.sampled_from(inactive))
    with pytest.raises(UsageError, match="only means something when"):
        space.configuration({**point, knob.name: knob.default})
    with pytest.raises(UsageError, match="only means something when"):
        space.with_change(point, {knob.name: knob.default})


@given(spaces_with_a_point())
def test_what_is_written_is_read_back_with_its_type(case: tuple[Space, Configuration]) -> None:
    space, _ = case
    for knob in space.knobs:
        for value in knob.values:
            assert is_among(value, [space.parse_assignment(f"{knob.name}={written(value)}")[1]])


@given(spaces_with_a_point())
def test_what_is_legal_only_when_given_is_never_enumerated(case: tuple[Space, Configuration]) -> None:
    space, point = case
    assert all(knob.allows("user:mine") == (knob.also is not None) for knob in space.knobs)
    for each in (*space.points(), *space.neighbours(point)):
        assert all(is_among(each[k], space.knob(k).values) or each[k] == point.get(k) for k in each)


@given(spaces_with_a_point(), st.data())
def test_a_word_held_back_stays_legal_and_leaves_the_points(
    case: tuple[Space, Configuration], data: st.DataObject
) -> None:
    space, point = case
    words = [(k.name, v) for k in space.knobs for v in k.values if isinstance(v, str) and len(k.values) > 1]
    if not words:
        return
    name, word = data.draw(st.sampled_from(words))
    without = space.only_when_given({name: [word]})
    assert without.is_legal(point)
    assert {each.digest for each in without.points()} == {
        each.digest for each in space.points() if each.get(name) != word
    }
    assert without.size == len(list(without.points()))


@given(spaces(), st.data())
def test_a_restricted_space_is_a_part_of_the_whole(space: Space, data: st.DataObject) -> None:
    knob = data.draw(st.sampled_from(space.knobs))
    keep = data.draw(st.lists(st.sampled_from(knob.values), min_size=1))
    restricted = space.restrict({knob.name: keep})
    within = {
        point.digest for point in space.points() if knob.name not in point or is_among(point[knob.name], keep)
    }
    assert {point.digest for point in restricted.points()} == within
    assert is_among(restricted.knob(knob.name).default, keep)


@given(spaces_with_a_point())
def test_crossing_the_active_knobs_gives_every_combination(case: tuple[Space, Configuration]) -> None:
    space, point = case
    free = [knob.name for knob in space.active(point) if not knob.when and not _has_children(space, knob)]
    crossed = space.crossing(point, free)
    expected = 1
    for name in free:
        expected *= len(space.knob(name).values)
    assert len({each.digest for each in crossed}) == len(crossed) == expected
    assert all({change.knob for change in point.changes_to(each)} <= set(free) for each in crossed)


def _has_children(space: Space, knob: Knob) -> bool:
    return any(other == knob.name for each in space.knobs for other, _ in each.when)

"""The space of a table: a packaged one that has all of it, or one that is read off its columns. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from agent.replay.cells import Line
from configs.catalog import Kind, packaged_names
from configs.errors import UsageError
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import Knob, is_among
from experiments.space.loading import load_space
from experiments.space.space import Space

INACTIVE = "–"
"""How an empty field is shown."""

GROUPS = ("pruning", "quantization", "drafting")
"""Groups of knobs that are one lever each; any other knob is a lever of its own."""

MOST_VALUES = 1000
"""A column of more different values is no knob, but a measurement."""


def space_of(
    columns: Sequence[str], lines: Sequence[Line], asked: str | None
) -> tuple[str | None, Space, list[Configuration]]:
    """The space of these knob columns, its packaged name (None of one that was read off), and each line's
    configuration.

    The first packaged space in which all lines are legal, or the one that is asked for; else one that the
    columns tell by themselves. Raises `UsageError` where the one asked for does not suit, and where a column
    is empty in some lines and no other column tells when.
    """
    if asked is not None:
        space = load_space(asked).that_has(columns)
        return asked, space, [_parsed(space, columns, line) for line in lines]
    for name in sorted(packaged_names(Kind.SPACES)):
        space = load_space(name).that_has(columns)
        try:
            found = [_parsed(space, columns, line) for line in lines]
        except UsageError:
            continue
        if all(is_among(v, space.knob(k).values) for each in found for k, v in each.items()):
            return name, space, found
    space = _read_off(columns, lines)
    return None, space, [_parsed(space, columns, line) for line in lines]


def _parsed(space: Space, columns: Sequence[str], line: Line) -> Configuration:
    given = {name: space.knob(name).parse(line.text(name)) for name in columns if line.text(name)}
    try:
        found = space.configuration(given)
    except UsageError as error:
        raise UsageError(f"Line {line.number}: {error.message}", error.hint) from None
    extra = [name for name in columns if name in found and not line.text(name)]
    if extra:
        raise UsageError(
            f"Line {line.number} leaves {extra[0]} empty, which is active there.", "Give it a value."
        )
    return found


def restricted(space: Space, configurations: Iterable[Configuration]) -> Space:
    """The space with the values that occur, without knobs that are active nowhere."""
    values: dict[str, list[KnobValue]] = {}
    for each in configurations:
        for name, value in each.items():
            if not is_among(value, values.setdefault(name, [])):
                values[name].append(value)
    return Space(tuple(knob for knob in space.restrict(values).knobs if knob.name in values))


def _read_off(columns: Sequence[str], lines: Sequence[Line]) -> Space:
    values = {name: _values(name, lines) for name in columns}
    plain = [name for name in columns if all(line.text(name) for line in lines)]
    knobs = []
    for name in columns:
        if not values[name]:
            continue
        when = () if name in plain else (_condition(name, plain, values, lines),)
        typed = tuple(dict.fromkeys(values[name].values()))  # 4 and 4.0 are one
        group, _, last = name.partition(".")
        lever = group if group in GROUPS else last.replace(".", "_")
        knobs.append(Knob(name, typed, typed[0], lever, when, "a column of the table"))
    return Space(tuple(knobs))


def _condition(
    name: str,
    plain: Sequence[str],
    values: Mapping[str, Mapping[str, KnobValue]],
    lines: Sequence[Line],
) -> tuple[str, tuple[KnobValue, ...]]:
    """The other column whose value tells when this one is empty."""
    for other in plain:
        filled = {line.text(other) for line in lines if line.text(name)}
        empty = {line.text(other) for line in lines if not line.text(name)}
        if not filled & empty:
            return other, tuple(values[other][text] for text in values[other] if text in filled)
    raise UsageError(
        f"The column {name} is empty in some lines, and no other column tells by its value when.",
        "Fill it, or name the space that the table is of with --space.",
    )


def _values(name: str, lines: Sequence[Line]) -> dict[str, KnobValue]:
    """The values of a column by their text, in the order of numbers, or else in that of words: never in that
    of the file, which may be sorted by what was measured. Raises `UsageError` for NaN and infinities."""
    texts = list(dict.fromkeys(line.text(name) for line in lines if line.text(name)))
    if len(texts) > MOST_VALUES:
        raise UsageError(
            f"The column {name} has {len(texts):,} different values, and a knob at most {MOST_VALUES:,}.",
            "Leave out of its name the dot, which makes it a knob, or replay fewer lines with --where.",
        )
    typed = {text: _typed(text) for text in sorted(texts)}
    for text, value in typed.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(
                f"The column {name} has {text!r}, which is no value of a knob.",
                "Leave the field empty where the knob is not active, or write another word.",
            )
    kinds = {type(value) for value in typed.values()}
    if kinds == {int, float}:
        typed = {text: float(value) for text, value in typed.items()}
    elif len(kinds) > 1:
        return {text: text for text in typed}
    if not kinds & {int, float}:
        return typed
    return dict(sorted(typed.items(), key=lambda each: float(each[1])))


def _typed(text: str) -> KnobValue:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)

"""Which single changes of a configuration would fit by a plan of memory where it does not. Pure.

One knob is changed and all others stay: fewer sequences, shorter ones, narrower weights, no drafter, fewer
drafts, a narrower cache, narrower states, no graphs, in this order (`TRIED`). Of each knob the value is
named that changes least of those that fit. Which change is the better one is not said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from configs.errors import UsageError
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import same_value, written
from experiments.space.space import Space

SMALLER: tuple[KnobValue, ...] = ()
"""In place of values: every smaller one that the space has, the largest first."""

TRIED: tuple[tuple[str, tuple[KnobValue, ...]], ...] = (
    ("serving.max_sequences", SMALLER),
    ("serving.max_model_len", SMALLER),
    ("quantization.method", ("awq", "rtn")),
    ("quantization.bits", SMALLER),
    ("quantization.lm_head", ("quantized",)),
    ("drafting.method", ("none",)),
    ("drafting.draft_tokens", SMALLER),
    ("serving.kv_cache_dtype", ("fp8_e4m3", "fp8_e5m2")),
    ("serving.gdn_state_dtype", ("bfloat16",)),
    ("serving.graph_mode", ("none", "eager")),
)
"""Knobs in the order in which they are tried, each with its values in their order. Values that take as much
memory as each other stand in the space's order."""

ONLY_FROM: Mapping[str, tuple[KnobValue, ...]] = {
    "quantization.method": ("none",),
    "serving.kv_cache_dtype": ("auto",),
    "serving.gdn_state_dtype": ("auto", "float32"),
}
"""Knobs that are only tried from these values: from others nothing would be narrower."""

GB = 1e9


@dataclass(frozen=True)
class SingleChange:
    """A knob, the value that it gets, and the bytes that are needed then."""

    knob: str
    value: KnobValue
    needed_bytes: int


@dataclass(frozen=True)
class Tried:
    """The changes that fit, in the order of `TRIED`, and every knob of which a value was legal."""

    fitting: tuple[SingleChange, ...]
    knobs: tuple[str, ...]


def single_changes(
    space: Space,
    configuration: Configuration,
    needed: Callable[[Configuration], int],
    usable_bytes: int,
    refused: Callable[[Configuration], str | None],
) -> Tried:
    """What fits into `usable_bytes` by `needed` when one knob of a configuration of the space is changed;
    `refused` gives a reason against what is legal by itself and can't be all the same.

    Raises `UsageError` for a configuration that is not of the space.
    """
    start = space.configuration(configuration)
    tried: list[str] = []
    fitting: list[SingleChange] = []
    for knob, values in TRIED:
        legal = list(_legal(space, start, knob, values, refused))
        tried += [knob] if legal else []
        fitting += _fitting(knob, legal, needed, usable_bytes)
    return Tried(tuple(fitting), tuple(tried))


def fitting_changes(
    space: Space,
    configuration: Configuration,
    needed: Callable[[Configuration], int],
    usable_bytes: int,
    refused: Callable[[Configuration], str | None],
) -> Iterator[SingleChange]:
    """What `single_changes` finds that fits, one after another: of the first alone no more is asked than it
    takes. Raises as it does."""
    start = space.configuration(configuration)
    for knob, values in TRIED:
        yield from _fitting(knob, _legal(space, start, knob, values, refused), needed, usable_bytes)


def _legal(
    space: Space,
    start: Configuration,
    knob: str,
    values: tuple[KnobValue, ...],
    refused: Callable[[Configuration], str | None],
) -> Iterator[tuple[KnobValue, Configuration]]:
    """The values of a knob that nothing is against, with what they make."""
    for value in _values(space, start, knob, values):
        changed = _changed(space, start, knob, value)
        if changed is not None and refused(changed) is None:
            yield value, changed


def _fitting(
    knob: str,
    legal: Iterable[tuple[KnobValue, Configuration]],
    needed: Callable[[Configuration], int],
    usable_bytes: int,
) -> Iterator[SingleChange]:
    """The first of these that fits; nothing where none does."""
    sized = (SingleChange(knob, value, needed(changed)) for value, changed in legal)
    yield from islice((each for each in sized if each.needed_bytes <= usable_bytes), 1)


def sentence(tried: Tried, usable_bytes: int, launches: int = 1) -> str:
    """What would fit, with the figures, or that nothing of it does alone; `launches` of them side by side."""
    each = "" if launches == 1 else " in each"
    room = f" of {usable_bytes / GB:.1f} GB"
    told = [
        f"{way.needed_bytes / GB:.1f} GB{'' if number else room} with {way.knob}={written(way.value)}{each}"
        for number, way in enumerate(tried.fitting)
    ]
    if told:
        return f"What would fit by the plan: {'; '.join(told)}."
    what = f"no single change (of {', '.join(tried.knobs)})" if tried.knobs else "nothing smaller"
    return f"By the plan {what} fits: change several at once, or take a smaller model or a larger card."


def _values(
    space: Space, start: Configuration, knob: str, values: tuple[KnobValue, ...]
) -> Iterator[KnobValue]:
    """The values to try of a knob, in their order; none of one that is not active, or not there."""
    now = start.get(knob)
    if now is None or (knob in ONLY_FROM and now not in ONLY_FROM[knob]):
        return
    known = space.knob(knob).values
    if not values:
        numbers = [each for each in known if isinstance(each, int) and not isinstance(each, bool)]
        yield from sorted((each for each in numbers if isinstance(now, int) and each < now), reverse=True)
        return
    yield from (each for each in values if each in known and not same_value(each, now))


def _changed(space: Space, start: Configuration, knob: str, value: KnobValue) -> Configuration | None:
    try:
        return space.with_change(start, {knob: value})
    except UsageError:
        return None

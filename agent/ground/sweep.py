"""What the sweep before trial 0 crosses, from what the campaign begins from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import is_among, same_value, written
from experiments.space.legality import Withheld
from experiments.space.space import Space
from knowledge.figures import listed


def swept(
    space: Space,
    start: Configuration | None,
    sweep: Iterable[str] | Mapping[str, Sequence[KnobValue]],
) -> tuple[Configuration, ...]:
    """`start` (the engine's own default, if not given) with each combination of the swept knobs' values.

    A knob that the start sets otherwise than the default stays as it sets it: what a campaign begins from is
    not swept away. Of values that do the same on this target one is crossed. Raises `UsageError` as
    `Space.crossing`.
    """
    default = space.configuration({})
    begun = start or default
    held = {change.knob for change in default.changes_to(begun)}
    if isinstance(sweep, Mapping):
        return space.crossing(begun, {knob: each for knob, each in sweep.items() if knob not in held})
    return space.crossing(begun, [knob for knob in sweep if knob not in held])


def passed_over(
    space: Space,
    start: Configuration | None,
    withheld: Iterable[Withheld],
    sweep: Iterable[str] | Mapping[str, Sequence[KnobValue]],
) -> str | None:
    """What the sweep names and does not time because it does what another value does, and why; None where
    there is nothing. `space` and `start` as of `swept`."""
    named = sweep if isinstance(sweep, Mapping) else dict.fromkeys(sweep)

    def is_swept(knob: str, value: KnobValue) -> bool:
        values = named.get(knob, ())
        return values is None or is_among(value, values)

    default = space.configuration({})
    begun = start or default
    held = {change.knob for change in default.changes_to(begun)}
    timed = {
        knob: () if values is None else _told_apart(space, knob, values)
        for knob, values in named.items()
        if any(each.name == knob for each in space.knobs)
    }
    told = [
        (each.knob, each.value, each.why)
        for each in withheld
        if each.same and is_swept(each.knob, each.value) and not is_among(each.value, timed[each.knob])
    ]
    told += [
        (knob.name, same.value, same.why)
        for knob in space.knobs
        for same in knob.same_beside
        if knob.name not in held and same_value(begun.get(same.knob), same.is_)
        if is_swept(knob.name, same.value) and is_swept(knob.name, same.like)
    ]
    values: dict[tuple[str, str], list[str]] = {}
    for knob, value, why in told:
        values.setdefault((knob, why), []).append(written(value))
    return (
        " ".join(
            f"The sweep before trial 0 passes over {knob}={listed(found)}: {why}"
            for (knob, why), found in values.items()
        )
        or None
    )


def _told_apart(space: Space, knob: str, values: Sequence[KnobValue]) -> Sequence[KnobValue]:
    """Of values that do the same that one which the others are held against, or the first."""
    like = {same.value: same.like for same in space.knob(knob).same}
    kept: dict[KnobValue, KnobValue] = {}
    for each in values:
        done = like.get(each, each)
        if each == done or done not in kept:
            kept[done] = each
    return list(kept.values())

"""What the sweep before trial 0 crosses, from what the campaign begins from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from experiments.space.configuration import Configuration, KnobValue
from experiments.space.space import Space


def swept(
    space: Space,
    start: Configuration | None,
    sweep: Iterable[str] | Mapping[str, Sequence[KnobValue]],
) -> tuple[Configuration, ...]:
    """`start` (the engine's own default, if not given) with each combination of the swept knobs' values.

    A knob that the start sets otherwise than the default stays as it sets it: what a campaign begins from is
    not swept away. Raises `UsageError` as `Space.crossing`.
    """
    default = space.configuration({})
    begun = start or default
    held = {change.knob for change in default.changes_to(begun)}
    if isinstance(sweep, Mapping):
        return space.crossing(begun, {knob: values for knob, values in sweep.items() if knob not in held})
    return space.crossing(begun, [knob for knob in sweep if knob not in held])

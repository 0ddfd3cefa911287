"""A configuration seen by lever: what each lever is set to where it differs from the baseline. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from experiments.space.configuration import Configuration, KnobValue
from experiments.space.space import Space

Setting: TypeAlias = tuple[tuple[str, KnobValue | None], ...]
"""The knobs of one lever that differ from the baseline, sorted, with their values; None where inactive."""

LEVER_JOINT = "+"
"""Between the names of levers in the name of a change of several: `compile+pruning`."""


@dataclass(frozen=True)
class LeverView:
    """Which lever each knob of a space belongs to, and the baseline that settings are relative to."""

    lever_of: Mapping[str, str]
    baseline: Configuration

    @classmethod
    def of(cls, space: Space, baseline: Configuration) -> LeverView:
        """The view of a space."""
        return cls({knob.name: knob.lever for knob in space.knobs}, baseline)

    def settings(self, configuration: Configuration) -> dict[str, Setting]:
        """For each lever that differs from the baseline, its differing knobs. Empty for the baseline."""
        found: dict[str, list[tuple[str, KnobValue | None]]] = {}
        for change in self.baseline.changes_to(configuration):
            lever = self.lever_of.get(change.knob, change.knob.partition(".")[0])
            found.setdefault(lever, []).append((change.knob, change.after))
        return {lever: tuple(knobs) for lever, knobs in sorted(found.items())}


def levers_in(lever: str) -> tuple[str, ...]:
    """The levers that a hypothesis's lever names: one, or several joined by `+`."""
    return tuple(lever.split(LEVER_JOINT))


def joined(levers: tuple[str, ...]) -> str:
    """The name of a change of these levers."""
    return LEVER_JOINT.join(sorted(levers))

"""A configuration seen by lever: what each lever is set to where it differs from the baseline. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from agent.surrogate.linear import Features
from agent.surrogate.ordered import Resemblance
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.space import Space

Setting: TypeAlias = tuple[tuple[str, KnobValue | None], ...]
"""The knobs of one lever that differ from the baseline, sorted, with their values; None where inactive."""

Target: TypeAlias = tuple[tuple[str, Setting], ...]
"""What was done to the weights of the model that is served: settings by lever; empty for the baseline's."""

TARGET_LEVERS = ("pruning", "quantization")
"""Levers that change the weights a drafter drafts for."""

NOISE_KNOBS = frozenset({"quantization.seed"})
"""Knobs that choose between draws of the same thing: nothing is expected of a value, nothing learnt of it."""


def changes_noise(before: Configuration, after: Configuration) -> bool:
    """Whether another value of a noise knob stands where both configurations have that knob.

    Such a change is a question that a user may ask; no proposer does. One that comes or goes with the lever
    it belongs to is no such change.
    """
    return any(
        change.knob in NOISE_KNOBS and None not in (change.before, change.after)
        for change in before.changes_to(after)
    )


LEVER_JOINT = "+"
"""Between the names of levers in the name of a change of several: `compile+pruning`."""


@dataclass(frozen=True)
class LeverView:
    """Which lever each knob of a space belongs to, the baseline that settings are relative to, and which
    knobs have values that resemble their neighbours."""

    lever_of: Mapping[str, str]
    baseline: Configuration
    resemblance: Resemblance = field(default_factory=Resemblance)

    @classmethod
    def of(cls, space: Space, baseline: Configuration) -> LeverView:
        """The view of a space."""
        lever_of = {knob.name: knob.lever for knob in space.knobs}
        return cls(lever_of, baseline, Resemblance.of(space, baseline))

    def lever(self, knob: str) -> str:
        """The lever of a knob, by its name where the space has it no more."""
        return self.lever_of.get(knob, knob.partition(".")[0])

    def settings(self, configuration: Configuration) -> dict[str, Setting]:
        """For each lever that differs from the baseline, its differing knobs, less those that are noise.
        Empty for the baseline."""
        found = self._without_noise.get(configuration)
        if found is None:
            found = self.made_with(configuration)
            if any(knob in configuration or knob in self.baseline for knob in NOISE_KNOBS):
                kept = {
                    lever: tuple(each for each in setting if each[0] not in NOISE_KNOBS)
                    for lever, setting in found.items()
                }
                found = {lever: setting for lever, setting in kept.items() if setting}
            self._without_noise[configuration] = found
        return found

    def made_with(self, configuration: Configuration) -> dict[str, Setting]:
        """As `settings`, with the knobs that are noise: what decides which artifacts are the same."""
        found = self._known.get(configuration)
        if found is None:
            found = self._known[configuration] = self._differences(configuration)
        return found

    @cached_property
    def _known(self) -> dict[Configuration, dict[str, Setting]]:
        """What was asked before: every belief asks it of every configuration."""
        return {}

    @cached_property
    def _without_noise(self) -> dict[Configuration, dict[str, Setting]]:
        """The same of `settings`."""
        return {}

    @cached_property
    def bits_of_setting(self) -> dict[tuple[str, Setting, bool], tuple[float, Features]]:
        """What `quality.py` expects of a lever's setting, as it derived it, with whether weights are
        quantized: many configurations share it."""
        return {}

    def _differences(self, configuration: Configuration) -> dict[str, Setting]:
        found: dict[str, list[tuple[str, KnobValue | None]]] = {}
        for knob in self.baseline.differing(configuration):
            found.setdefault(self.lever(knob), []).append((knob, configuration.get(knob)))
        return {lever: tuple(knobs) for lever, knobs in sorted(found.items())}

    def target(self, settings: Mapping[str, Setting]) -> Target:
        """The target of these settings: those that change its weights."""
        return tuple((lever, settings[lever]) for lever in TARGET_LEVERS if lever in settings)


def levers_in(lever: str) -> tuple[str, ...]:
    """The levers that a hypothesis's lever names: one, or several joined by `+`."""
    return tuple(lever.split(LEVER_JOINT))


def joined(levers: tuple[str, ...]) -> str:
    """The name of a change of these levers."""
    return LEVER_JOINT.join(sorted(levers))

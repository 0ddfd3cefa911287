"""The space: knobs, their values, and which of them are active under which others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.space.configuration import Configuration, KnobValue


@dataclass(frozen=True)
class Knob:
    """One typed knob. `when` maps another knob to the values under which this one is active."""

    name: str
    values: tuple[KnobValue, ...]
    default: KnobValue
    lever: str
    when: tuple[tuple[str, tuple[KnobValue, ...]], ...] = ()
    help: str = ""


@dataclass(frozen=True)
class Space:
    """All knobs of an engine and model on one target."""

    knobs: tuple[Knob, ...]

    def configuration(self, knobs: Mapping[str, KnobValue]) -> Configuration:
        """A legal configuration: defaults filled in, conditions and values checked."""
        raise NotImplementedError

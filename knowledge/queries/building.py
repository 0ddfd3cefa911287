"""What a job builds that is for no experiment: a checkpoint for tests to come, and for which of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.space.configuration import Change
from knowledge.change_words import change_in_short
from knowledge.queries.view import ChangeView, View

MADE_BY = ("pruning", "quantization")
"""Levers that make a checkpoint, each with a method that may be `none`."""


class BuildingView(View):
    """A checkpoint that is built: the knobs that make it, and what needs it first, `H-003` or `the question
    g32_bits`; None of a job of a version that did not keep it."""

    purpose: str | None
    made_by: tuple[ChangeView, ...]

    @property
    def words(self) -> str:
        """What is done to the model, as a title: `Quantizing to 4 bits by awq in groups of 128`."""
        return change_in_short([Change(each.knob, each.before, each.after) for each in self.made_by])


def building_of(spec: Mapping[str, Any]) -> BuildingView:
    """What the stored spec of a build asks for; pure."""
    knobs = spec["configuration"]
    levers = [each for each in MADE_BY if knobs.get(f"{each}.method", "none") != "none"]
    return BuildingView(
        purpose=spec.get("purpose"),
        made_by=tuple(
            ChangeView(knob=knob, before=None, after=value)
            for knob, value in sorted(knobs.items())
            if knob.partition(".")[0] in levers
        ),
    )

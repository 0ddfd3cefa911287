"""An idea of a rule, and the ways in which rules step from the incumbent. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.proposers.port import CampaignView
from configs.errors import UsageError
from experiments.measurement.evidence import Metric
from experiments.space.configuration import Configuration, KnobValue


@dataclass(frozen=True)
class Idea:
    """A candidate and why it might pay; `metric` is what it would be judged on, None for the objective.
    `as_found` ends its claim where another campaign found the same: a clause with the labels. `builds_on` are
    the labels of the findings that it is of. `behind` is the candidate of another idea, right behind which it
    comes where it would come later by what is expected of it."""

    candidate: Configuration
    rationale: str
    parents: tuple[int, ...] = ()
    metric: Metric | None = None
    as_found: str = ""
    builds_on: tuple[str, ...] = ()
    behind: Configuration | None = None


def changed(view: CampaignView, knobs: Mapping[str, KnobValue]) -> Configuration | None:
    """The incumbent with these knobs set, by what is offered of values that do the same; None where that is
    not legal here or changes nothing."""
    try:
        candidate = view.space.with_change(view.incumbent, knobs)
    except UsageError:  # the space of this target lacks such a value
        return None
    candidate = view.space.as_offered(view.incumbent, candidate)
    return None if candidate == view.incumbent else candidate


def other_values(view: CampaignView, lever: str) -> list[Configuration]:
    """Every configuration that one knob of the lever leads to, other levers left alone."""
    return [
        candidate
        for candidate in view.space.neighbours(view.incumbent)
        if view.space.levers_between(view.incumbent, candidate) == (lever,)
    ]


def enumerated(view: CampaignView, knob: str) -> tuple[KnobValue, ...]:
    """The values of a knob that may be proposed; () where the space has no such knob."""
    return next((each.values for each in view.space.knobs if each.name == knob), ())

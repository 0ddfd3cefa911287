"""A fixed total of parameters, target and drafter together: a drafter must be paid for by pruning. Pure.

The model's own MTP head is part of it and so already paid; an external drafter comes on top, so that layers
of the target must go. Which layers go is known only after their ranking; the smallest layers that may go are
counted, so that nothing is offered that the ranking could make too large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from configs.errors import UsageError
from configs.models import ModelProfile
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.legality import (
    DRAFTER,
    DRAFTING,
    EXTERNAL_DRAFTERS,
    KINDS_OF,
    LAYERS,
    PACKAGED,
    RESTRICT,
)
from experiments.space.space import Space

BASELINE = "baseline"
"""A budget of what the baseline has: the whole checkpoint, its MTP head included."""

METHOD = "pruning.method"

Refused = Callable[[Configuration], str | None]
"""Why a legal configuration can't be, in a sentence; None when it can."""


@dataclass(frozen=True)
class ParameterBudget:
    """At most `total` parameters, target and drafter together.

    `layer_parameters` and `kinds` are those of each layer of the whole target, `rest_parameters` what every
    target has beside its layers (embedding, head, norms, MTP head). `drafter_parameters` are an external
    drafter's own weights by `drafting.method` and `drafting.drafter`; what it borrows of the target, such as
    its embedding, is not counted twice.
    """

    total: int
    layer_parameters: tuple[int, ...]
    kinds: tuple[str, ...]
    drafter_parameters: Mapping[tuple[str, str], int]
    rest_parameters: int

    def __post_init__(self) -> None:
        if len(self.layer_parameters) != len(self.kinds):
            raise ValueError(f"{len(self.layer_parameters)} layers have {len(self.kinds)} kinds")

    @classmethod
    def of(
        cls,
        profile: ModelProfile,
        total: Literal["baseline"] | int,
        drafter_parameters: Mapping[tuple[str, str], int],
    ) -> ParameterBudget:
        """The budget of a model; raises `UsageError` for one that the smallest pruned target exceeds."""
        layers = tuple(
            sum(part.parameters for part in profile.parts if part.layer == number)
            for number in range(profile.layers)
        )
        whole = profile.text_parameters + profile.mtp_parameters
        budget = cls(
            total if isinstance(total, int) else whole,
            layers,
            profile.layer_types,
            dict(drafter_parameters),
            whole - sum(layers),
        )
        least = whole - budget.saved(len(layers), "any")
        if budget.total < least:
            raise UsageError(
                f"A parameter budget of {budget.total:,} is below the {least:,} that {profile.name} has with "
                "one layer of each kind.",
                f"Allow at least that, or write {BASELINE} for the {whole:,} of the whole model.",
            )
        return budget

    def saved(self, count: int, restrict: str) -> int:
        """Parameters that go with `count` layers at least: those of the smallest layers of the allowed kinds,
        one of each kind staying."""
        left = {kind: self.kinds.count(kind) for kind in set(self.kinds)}
        gone: list[int] = []
        for layer in sorted(range(len(self.kinds)), key=lambda layer: (self.layer_parameters[layer], layer)):
            kind = self.kinds[layer]
            if len(gone) < count and kind in KINDS_OF[restrict] and left[kind] > 1:
                left[kind] -= 1
                gone.append(self.layer_parameters[layer])
        return sum(gone)

    def target_parameters(self, configuration: Mapping[str, KnobValue]) -> int:
        """Parameters of the target: the most that may be left."""
        count = configuration.get(LAYERS)
        restrict = str(configuration.get(RESTRICT, "any"))
        whole = sum(self.layer_parameters) + self.rest_parameters
        return whole - (self.saved(count, restrict) if isinstance(count, int) else 0)

    def refusal(self, configuration: Mapping[str, KnobValue]) -> str | None:
        """Why target and drafter exceed the total, in a sentence; None when they don't."""
        target = self.target_parameters(configuration)
        method = str(configuration.get(DRAFTING, "none"))
        if method not in EXTERNAL_DRAFTERS:
            if target <= self.total:
                return None
            return f"The target alone has {target:,} parameters, more than the budget of {self.total:,}."
        drafter = str(configuration.get(DRAFTER, PACKAGED))
        own = self.drafter_parameters.get((method, drafter))
        if own is None:
            return (
                f"How many parameters the drafter {drafter} has is not known, so it can't be counted in the "
                f"budget of {self.total:,}."
            )
        if target + own <= self.total:
            return None
        return (
            f"Target ({target:,} parameters) and drafter ({own:,}) have {target + own:,} together, more than "
            f"the budget of {self.total:,}: {target + own - self.total:,} must be pruned."
        )


def with_pruning_that_pays(
    space: Space, refused: Refused, configuration: Configuration
) -> tuple[Configuration, ...]:
    """The configuration with the least number of layers removed with which it is not refused; () for none."""
    names = {knob.name for knob in space.knobs}
    if not {METHOD, LAYERS} <= names:
        return ()
    now = configuration.get(LAYERS, 0)
    restricts = space.knob(RESTRICT).values if RESTRICT in names else (None,)
    counts = sorted(value for value in space.knob(LAYERS).values if isinstance(value, int))
    for count in counts:
        if isinstance(now, int) and count < now:
            continue
        paid = []
        for restrict in restricts:
            knobs: dict[str, KnobValue] = {METHOD: "depth", LAYERS: count}
            if restrict is not None:
                knobs[RESTRICT] = restrict
            try:
                candidate = space.with_change(configuration, knobs)
            except UsageError:  # this space has no depth pruning
                return ()
            if refused(candidate) is None:
                paid.append(candidate)
        if paid:
            return tuple(paid)
    return ()

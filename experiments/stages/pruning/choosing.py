"""Which layers may go, and which go first. Pure.

Every criterion chooses in rounds: of the layers that may still go, the one of least score goes. A criterion
that scores once chooses by the same rule with the same scores in every round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from experiments.engines.port import Infeasible
from experiments.space.configuration import KnobValue

RESTRICTIONS: Mapping[str, tuple[str, ...]] = {
    "any": ("linear_attention", "full_attention"),
    "gdn": ("linear_attention",),
    "attention": ("full_attention",),
}
"""Values of `pruning.restrict` and the kinds of layers that may go under each."""

_WORDS = {"linear_attention": "GatedDeltaNet", "full_attention": "attention"}

Rescore = Callable[[tuple[int, ...], tuple[int, ...]], Mapping[int, float]]
"""From the layers that are gone and those that may go next, the score of each of the latter."""


@dataclass(frozen=True)
class Choice:
    """How many layers are to go, and of which kinds (a value of `pruning.restrict`)."""

    layers_removed: int
    restrict: str

    @classmethod
    def of(cls, layers_removed: KnobValue, restrict: KnobValue) -> Choice:
        """The choice by the values of its knobs; raises `Infeasible`, kind `illegal`, for layers that are no
        whole number."""
        if isinstance(layers_removed, bool) or not isinstance(layers_removed, int):
            raise Infeasible(
                "illegal",
                f"pruning.layers_removed is {layers_removed!r}; it must be a whole number from 1 on.",
            )
        return cls(layers_removed, str(restrict))


@dataclass(frozen=True)
class Round:
    """One layer's going: what each layer that might have gone instead scored, and which went."""

    scores: Mapping[int, float]
    removed: int


def removable(layer_types: Sequence[str], choice: Choice) -> None:
    """Check that the choice can be met.

    Raises:
        Infeasible: kind `illegal`, for an unknown restriction, and when so many layers of the allowed kinds
            can't go with one of each kind left.
    """
    count, restrict = choice.layers_removed, choice.restrict
    if restrict not in RESTRICTIONS:
        raise Infeasible(
            "illegal", f"There is no pruning.restrict {restrict!r}; it is one of {', '.join(RESTRICTIONS)}."
        )
    if count < 1:
        raise Infeasible("illegal", f"pruning.layers_removed is {count}; at least 1 layer must go.")
    present = {kind: list(layer_types).count(kind) for kind in RESTRICTIONS[restrict]}
    most = sum(max(0, number - 1) for number in present.values())
    if count > most:
        shown = ", ".join(f"{number} {_WORDS[kind]}" for kind, number in present.items())
        raise Infeasible(
            "illegal",
            f"{count} layers can't be taken out: of the layers that may go ({shown}) "
            f"one of each kind must stay, which leaves {most}.",
        )


def may_go_next(layer_types: Sequence[str], gone: Sequence[int], restrict: str) -> tuple[int, ...]:
    """The layers that may go when those of `gone` went: of an allowed kind, and not the last of it."""
    stay = [index for index in range(len(layer_types)) if index not in gone]
    kinds = [layer_types[index] for index in stay]
    return tuple(
        index
        for index in stay
        if layer_types[index] in RESTRICTIONS[restrict] and kinds.count(layer_types[index]) > 1
    )


def choose_in_rounds(layer_types: Sequence[str], choice: Choice, rescore: Rescore) -> tuple[Round, ...]:
    """Take out one layer a round, that of least score at the time; ties go to the earlier layer.

    Raises `Infeasible` as `removable`.
    """
    removable(layer_types, choice)
    rounds: list[Round] = []
    for _ in range(choice.layers_removed):
        gone = tuple(each.removed for each in rounds)
        candidates = may_go_next(layer_types, gone, choice.restrict)
        scores = rescore(gone, candidates)
        least = min(candidates, key=lambda index: (scores[index], index))
        rounds.append(Round({index: scores[index] for index in candidates}, least))
    return tuple(rounds)


def choose_layers(scores: Sequence[float], layer_types: Sequence[str], choice: Choice) -> tuple[int, ...]:
    """The layers that go, ascending, when each keeps the score it has. Raises `Infeasible` as `removable`."""
    fixed = dict(enumerate(scores))
    return tuple(sorted(each.removed for each in choose_in_rounds(layer_types, choice, lambda *_: fixed)))

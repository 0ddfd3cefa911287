"""What a pruning that lost the quality says of others: those that take its layers too lose it as well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.proposers.port import Trial
from agent.proposers.pruning_rule import losing
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration
from experiments.space.loading import load_space

KINDS = ("linear_attention", "linear_attention", "full_attention", "linear_attention")


@pytest.mark.parametrize(
    ("restrict", "layers", "removed", "speaks_against"),
    [
        ("gdn", 1, (1,), True),
        ("gdn", 2, (1,), True),
        ("any", 1, (1,), True),
        ("attention", 1, (1,), False),
        ("attention", 1, (2,), True),
        ("gdn", 1, (1, 2), False),
        ("gdn", 1, (0, 1), False),
        ("gdn", 1, None, False),
        ("gdn", 1, (7,), False),
    ],
)
def test_a_pruning_that_lost_speaks_against_those_that_take_its_layers_too(
    restrict: str, layers: int, removed: tuple[int, ...] | None, speaks_against: bool
) -> None:
    space = load_space("reference")
    base = space.configuration({})

    def pruned(count: int, kind: str) -> Configuration:
        return space.with_change(
            base, {"pruning.method": "depth", "pruning.layers_removed": count, "pruning.restrict": kind}
        )

    lost = Trial(
        1,
        1,
        base,
        pruned(len(removed or (1,)), "any"),
        "pruning",
        Outcome.REFUTED,
        None,
        None,
        0.2,
        0.0,
        9.0,
        removed_layers=removed,
    )
    found = losing([lost], KINDS, pruned(layers, restrict), 0.03)
    assert bool(found) == speaks_against
    kept = replace(lost, candidate=pruned(1, "gdn"), removed_layers=(1,))
    assert losing([kept], KINDS, pruned(1, "any"), 0.03) == [], "all layers together may have another lowest"


def test_a_test_that_changed_the_format_of_the_weights_too_says_nothing_about_pruning_alone() -> None:
    space = load_space("levers")
    base = space.configuration({})
    pruning = {"pruning.method": "depth", "pruning.layers_removed": 1}
    pruned = space.with_change(base, pruning)
    both = space.with_change(base, pruning | {"quantization.method": "rtn"})
    narrower = space.with_change(base, pruning | {"serving.dtype": "bfloat16"})
    lost = Trial(1, 1, base, both, "joint", Outcome.REFUTED, None, None, 0.2, 0.0, 9.0, removed_layers=(1,))
    alone = replace(lost, control=space.with_change(both, {"pruning.method": "none"}))
    assert losing([lost], KINDS, pruned, 0.03) == []
    assert losing([lost], KINDS, both, 0.03) == []
    assert losing([replace(lost, candidate=narrower)], KINDS, pruned, 0.03) == []
    assert losing([alone], KINDS, both, 0.03) == [alone]

"""The parameter budget: a drafter is offered only with the pruning that pays for it."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.errors import UsageError
from configs.models import load_model_profile
from experiments.space.budget import ParameterBudget, with_pruning_that_pays
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.legality import KINDS_OF
from experiments.space.loading import load_space

SPACE = load_space("levers").restrict({"pruning.layers_removed": [1, 2, 3, 4]})
PROFILE = load_model_profile("reference")
NONE = SPACE.configuration({})
DRAFTED = SPACE.configuration({"drafting.method": "dflash"})


def budget(drafter: int, total: int | None = None) -> ParameterBudget:
    return ParameterBudget.of(
        PROFILE, "baseline" if total is None else total, {("dflash", "packaged"): drafter}
    )


def pruned(configuration: Configuration, count: int, restrict: str = "any") -> Configuration:
    knobs: dict[str, KnobValue] = {
        "pruning.method": "depth", "pruning.layers_removed": count, "pruning.restrict": restrict,
    }  # fmt: skip
    return SPACE.with_change(configuration, knobs)


def test_the_budget_of_the_baseline_is_its_checkpoint_with_the_mtp_head() -> None:
    assert budget(1).total == PROFILE.text_parameters + PROFILE.mtp_parameters
    assert budget(1).refusal(NONE) is None
    assert budget(1).refusal(SPACE.configuration({"drafting.method": "mtp"})) is None


def test_a_drafter_that_is_not_paid_for_is_refused_with_what_is_missing() -> None:
    assert budget(400_000).refusal(DRAFTED) == (
        "Target (4,849,544 parameters) and drafter (400,000) have 5,249,544 together, more than the budget "
        "of 4,849,544: 400,000 must be pruned."
    )
    assert budget(400_000).refusal(pruned(DRAFTED, 1)) is not None
    assert budget(400_000).refusal(pruned(DRAFTED, 2)) is None


def test_of_layers_that_may_go_the_smallest_are_counted_as_gone() -> None:
    attention, gdn = 328_064, 331_080
    config = pruned(DRAFTED, 1)
    assert budget(attention).refusal(config) is None
    assert budget(gdn).refusal(config) is not None
    assert budget(gdn).refusal(pruned(DRAFTED, 1, "gdn")) is None


def test_a_drafter_of_unknown_size_is_refused() -> None:
    mine = SPACE.with_change(DRAFTED, {"drafting.drafter": "./mine"})
    assert "How many parameters the drafter ./mine has is not known" in str(budget(1).refusal(mine))


def test_a_total_below_the_target_refuses_the_target_and_one_below_all_pruning_is_no_budget() -> None:
    assert "The target alone has 4,849,544 parameters" in str(budget(1, 4_700_000).refusal(NONE))
    assert budget(1, 4_700_000).refusal(pruned(NONE, 1)) is None
    with pytest.raises(UsageError, match="A parameter budget of 1,000 is below the"):
        budget(1, 1000)


def test_a_drafter_comes_with_the_fewest_layers_that_pay_for_it() -> None:
    found = with_pruning_that_pays(SPACE, budget(400_000).refusal, DRAFTED)
    assert found == tuple(pruned(DRAFTED, 2, restrict) for restrict in ("any", "gdn", "attention"))


def test_what_nothing_pays_for_is_not_offered() -> None:
    assert with_pruning_that_pays(SPACE, budget(9_000_000).refusal, DRAFTED) == ()


@given(st.integers(1, 2_000_000), st.integers(0, 4), st.sampled_from(["any", "gdn", "attention"]))
def test_laws_of_pruning_that_pays(drafter: int, count: int, restrict: str) -> None:
    limit = budget(drafter)
    start = pruned(DRAFTED, count, restrict) if count else DRAFTED
    for found in with_pruning_that_pays(SPACE, limit.refusal, start):
        assert SPACE.is_legal(found)
        assert limit.refusal(found) is None
        assert found["drafting.method"] == "dflash"
        layers = found["pruning.layers_removed"]
        assert isinstance(layers, int)
        assert layers >= max(1, count)
        for fewer in range(max(1, count), layers):
            for kind in KINDS_OF:
                assert limit.refusal(pruned(found, fewer, kind)) is not None


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=2, max_size=6), st.integers(1, 4))
def test_no_ranking_saves_less_than_is_counted_before_it(layers: list[tuple[int, bool]], count: int) -> None:
    kinds = tuple("linear_attention" if gdn else "full_attention" for _, gdn in layers)
    limit = ParameterBudget(100, tuple(size for size, _ in layers), kinds, {}, 5)
    for restrict, allowed in KINDS_OF.items():
        for removed in combinations(range(len(kinds)), count):
            left = [kind for number, kind in enumerate(kinds) if number not in removed]
            if all(kinds[number] in allowed and kinds[number] in left for number in removed):
                assert limit.saved(count, restrict) <= sum(limit.layer_parameters[each] for each in removed)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.engines.port import Infeasible
from experiments.stages.layer_removal import renamed
from experiments.stages.prune import RESTRICTIONS, choose_layers

KINDS = st.lists(st.sampled_from(["linear_attention", "full_attention"]), min_size=1, max_size=24)


@given(KINDS, st.integers(1, 24), st.sampled_from(sorted(RESTRICTIONS)), st.randoms())
def test_so_many_allowed_layers_go_and_one_of_each_kind_stays(
    kinds: list[str], count: int, restrict: str, random: st.random_module
) -> None:
    scores = [random.random() for _ in kinds]
    allowed = RESTRICTIONS[restrict]
    most = sum(max(0, kinds.count(kind) - 1) for kind in allowed)
    if count > most:
        with pytest.raises(Infeasible, match="can't be taken out"):
            choose_layers(scores, kinds, count, restrict)
        return
    chosen = choose_layers(scores, kinds, count, restrict)
    assert len(chosen) == count
    assert list(chosen) == sorted(set(chosen))
    assert {kinds[index] for index in chosen} <= set(allowed)
    left = [kind for index, kind in enumerate(kinds) if index not in chosen]
    assert set(left) == set(kinds)
    for stays in set(range(len(kinds))) - set(chosen):
        if kinds[stays] in allowed and left.count(kinds[stays]) > 1:
            assert all(scores[gone] <= scores[stays] for gone in chosen)


def test_ties_go_to_the_earlier_layer() -> None:
    assert choose_layers([0.5] * 4, ["linear_attention"] * 4, 2, "any") == (0, 1)


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("model.layers.3.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight"),
        ("model.language_model.layers.12.norm.weight", "model.language_model.layers.2.norm.weight"),
        ("model.layers.1.mlp.up_proj.weight", None),
        ("mtp.layers.3.mlp.up_proj.weight", "mtp.layers.3.mlp.up_proj.weight"),
        ("model.mtp.layers.3.x", "model.mtp.layers.3.x"),
        ("model.visual.layers.3.x", "model.visual.layers.3.x"),
        ("model.embed_tokens.weight", "model.embed_tokens.weight"),
        ("lm_head.weight", "lm_head.weight"),
    ],
)
def test_layers_are_numbered_anew_and_everything_else_keeps_its_name(name: str, after: str | None) -> None:
    assert renamed(name, {0: 0, 3: 1, 12: 2}) == after

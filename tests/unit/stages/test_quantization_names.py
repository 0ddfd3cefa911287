"""Names of layers after removal: each list means the same modules under their new numbers."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.engines.port import Infeasible
from experiments.stages.pruning.quantization_names import NamesAfterRemoval, renumbered

LAYERS = 12
PARTS = ("linear_attn.in_proj_a", "linear_attn.out_proj", "mlp.up_proj")
TENSORS = [
    *(f"model.layers.{layer}.{part}.weight" for layer in range(LAYERS) for part in PARTS),
    "model.embed_tokens.weight",
    "mtp.layers.0.mlp.up_proj.weight",
    "mtp.layers.1.mlp.up_proj.weight",
]


def places(*removed: int) -> dict[int, int]:
    kept = [layer for layer in range(LAYERS) if layer not in removed]
    return {old: new for new, old in enumerate(kept)}


def after(entries: list[str], *removed: int) -> list[str]:
    return NamesAfterRemoval(TENSORS, places(*removed)).entries(entries)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("model.layers.3.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight"),
        ("model.layers.3.mlp.up_proj.weight_packed", "model.layers.1.mlp.up_proj.weight_packed"),
        ("model.layers.12.self_attn.q_proj.qzeros", "model.layers.2.self_attn.q_proj.qzeros"),
        ("model.language_model.layers.12.norm.weight", "model.language_model.layers.2.norm.weight"),
        ("language_model.model.layers.3", "language_model.model.layers.1"),
        ("layers.3.mlp", "layers.1.mlp"),
        ("model.layers.1.mlp.up_proj.weight", None),
        ("mtp.layers.3.mlp.up_proj.weight", "mtp.layers.3.mlp.up_proj.weight"),
        ("model.mtp.layers.3.x", "model.mtp.layers.3.x"),
        ("model.visual.layers.3.x", "model.visual.layers.3.x"),
        ("model.embed_tokens.weight", "model.embed_tokens.weight"),
        ("lm_head.weight", "lm_head.weight"),
        ("Linear", "Linear"),
    ],
)
def test_layers_are_numbered_anew_and_everything_else_keeps_its_name(name: str, expected: str | None) -> None:
    assert renumbered(name, {0: 0, 3: 1, 12: 2}) == expected


@pytest.mark.parametrize(
    ("entries", "removed", "expected"),
    [
        (["lm_head", "re:.*mtp.*", "Linear"], (0, 5), ["lm_head", "re:.*mtp.*", "Linear"]),
        (["re:.*in_proj_a$"], (0,), ["re:.*in_proj_a$"]),
        (["model.layers.3.mlp.up_proj", "model.layers.5.mlp"], (3,), ["model.layers.4.mlp"]),
        ([r"re:model\.layers\.11\..*"], (2, 3), [r"re:model\.layers\.9\..*"]),
        ([r"re:.*\.layers\.11\..*"], (2, 11), []),
        ([r"re:model\.layers\.(0|11)\.mlp.*"], (0,), None),
        (["mtp.layers.1.mlp.up_proj"], (1,), ["mtp.layers.1.mlp.up_proj"]),
    ],
)
def test_entries_after_removal(
    entries: list[str], removed: tuple[int, ...], expected: list[str] | None
) -> None:
    found = after(entries, *removed)
    if expected is None:  # spelt out, in every form that a name may have
        assert "model.layers.10.mlp.up_proj" in found
        assert "model.language_model.layers.10.mlp.up_proj" not in found, "the expression never meant that"
        assert not any("in_proj" in entry for entry in found)
    else:
        assert found == expected


PATTERNS = st.one_of(
    st.builds(lambda n: rf"re:model\.layers\.{n}\..*", st.integers(0, LAYERS - 1)),
    st.builds(lambda n, p: f"re:.*layers.{n}.{p}", st.integers(0, LAYERS - 1), st.sampled_from(PARTS)),
    st.builds(lambda a, b: rf"re:.*layers\.({a}|{b})\.", st.integers(0, 11), st.integers(0, 11)),
    st.builds(lambda a: rf"re:.*layers\.[0-{a}]\.", st.integers(0, 9)),
    st.builds(lambda n, p: f"model.layers.{n}.{p}", st.integers(0, LAYERS - 1), st.sampled_from(PARTS)),
    st.sampled_from(["lm_head", "re:.*mlp.*", "re:.*mtp.*", r"re:^(?!.*mtp).*up_proj$"]),
)


def meant(entries: list[str], modules: set[str]) -> set[str]:
    return {
        module
        for module in modules
        for entry in entries
        if entry == module or (entry.startswith("re:") and re.match(entry[3:], module))
    }


@given(
    st.lists(PATTERNS, max_size=4),
    st.sets(st.integers(0, LAYERS - 1), max_size=LAYERS - 1),
)
def test_a_list_means_the_same_modules_as_before(entries: list[str], removed: set[int]) -> None:
    modules = {name.removesuffix(".weight") for name in TENSORS}
    new_name = {module: renumbered(module, places(*removed)) for module in modules}
    expected = {name for module in meant(entries, modules) if (name := new_name[module]) is not None}
    left = {name for name in new_name.values() if name is not None}
    assert meant(after(entries, *removed), left) == expected


def test_a_configuration_is_rewritten_in_all_its_lists_and_schemes_without_modules_go() -> None:
    before: dict[str, Any] = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "ignore": ["lm_head", "model.layers.0.mlp.up_proj", "model.layers.11.mlp.up_proj"],
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "group_size": 32}},
            "group_1": {"targets": ["model.layers.0.linear_attn.out_proj"], "weights": {"num_bits": 8}},
        },
        "kv_cache_scheme": None,
    }
    found = NamesAfterRemoval(TENSORS, places(0)).config(before)
    assert found == before | {
        "ignore": ["lm_head", "model.layers.10.mlp.up_proj"],
        "config_groups": {"group_0": before["config_groups"]["group_0"]},
    }


def test_a_configuration_that_names_layers_elsewhere_is_refused_not_left_wrong() -> None:
    with pytest.raises(Infeasible, match="names a layer by number") as told:
        NamesAfterRemoval(TENSORS, places(0)).config({"dynamic": {"-:model.layers.3.": {}}})
    assert told.value.kind == "unsupported"

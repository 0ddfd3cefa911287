"""AWQ's pairs: which module's output is scaled down, and whose inputs are scaled up for it. Pure.

Names are regular expressions with `re:`, as llmcompressor takes them, for the text model's modules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from experiments.engines.reference.inspection import CheckpointFiles
from experiments.stages.quantize.modules import ROUTERS
from experiments.stages.quantize.plan import plan, trunk_prefix
from experiments.stages.quantize.recipe import QuantizationRecipe

Pair = tuple[str, list[str]]
"""A module whose output is scaled down, and those whose inputs are scaled up."""

_SHARED, _EXPERTS = r"shared_expert\.", r"experts\.\d+\."


def awq_mappings(files: CheckpointFiles, recipe: QuantizationRecipe) -> list[Pair]:
    """The pairs of all layers.

    Norms scale for the projections after them (`in_proj_a` and `in_proj_b` too, which stay in high
    precision), `up_proj` for `down_proj`; in a Mixture of Experts a norm for the router, the gate and every
    expert, each expert's `up_proj` for its own `down_proj`. The router is first: what AWQ knows of the norm's
    output it measures at the first, and not every token goes through an expert.
    There is none for `v_proj` → `o_proj` and → `linear_attn.out_proj`: a gate and, with grouped heads,
    other shapes stand between. Those are rounded plainly.
    """
    layers = [
        index
        for index in range(len(files.layer_types))
        if not (recipe.keep == "edges" and index in (0, len(files.layer_types) - 1))
    ]
    attention = [index for index in layers if files.layer_types[index] == "full_attention"]
    gdn = [index for index in layers if files.layer_types[index] == "linear_attention"]
    pairs = [
        (gdn, "input_layernorm", "linear_attn", ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")),
        *((layers, smooth, "mlp", names) for smooth, names in _mlp_pairs(files)),
    ]
    if recipe.keep != "attention":
        pairs.insert(0, (attention, "input_layernorm", "self_attn", ("q_proj", "k_proj", "v_proj")))
    return [
        (
            rf"re:model\.layers\.({_any_of(numbers)})\.{smooth}$",
            [rf"re:model\.layers\.({_any_of(numbers)})\.{block}\.{name}$" for name in names],
        )
        for numbers, smooth, block, names in pairs
        if numbers
    ]


def _mlp_pairs(files: CheckpointFiles) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Those of a layer's MLP, or of its router and experts: what is scaled down, and the names in `mlp`."""
    mlps = (_SHARED, _EXPERTS) if files.has_experts else ("",)
    routers = ROUTERS if files.has_experts else ()
    into = tuple(f"{each}{name}" for each in mlps for name in ("gate_proj", "up_proj"))
    yield "post_attention_layernorm", (*routers, *into)
    for each in mlps:
        yield rf"mlp\.{each}up_proj", (f"{each}down_proj",)


def mappings_of_layer(files: CheckpointFiles, recipe: QuantizationRecipe, layer: int) -> list[Pair]:
    """Those of `awq_mappings` that are a layer's, for a model that is this layer alone; none where nothing of
    it is scaled."""
    if recipe.method != "awq" or (recipe.keep == "edges" and layer in (0, len(files.layer_types) - 1)):
        return []
    alone = replace(files, layer_types=(files.layer_types[layer],))
    keep = "none" if recipe.keep == "edges" else recipe.keep
    return awq_mappings(alone, replace(recipe, keep=keep))


def rescaled(files: CheckpointFiles, recipe: QuantizationRecipe) -> frozenset[str]:
    """Stored names of dense tensors that AWQ changes: norms, and what stays dense beside quantized ones."""
    if recipe.method != "awq":
        return frozenset()
    mappings = awq_mappings(files, recipe)
    touched = [
        re.compile(name.removeprefix("re:")) for smooth, names in mappings for name in (smooth, *names)
    ]
    quantized = {module.replaced for module in plan(files, recipe)}
    prefix = trunk_prefix(files)
    return frozenset(
        name
        for name in files.tensors
        if name.startswith(f"{prefix}layers.")
        and name not in quantized
        and any(pattern.match(f"model.{name[len(prefix) :]}".removesuffix(".weight")) for pattern in touched)
    )


def _any_of(numbers: Sequence[int]) -> str:
    return "|".join(map(str, numbers))

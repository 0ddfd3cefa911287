"""Which modules of a checkpoint a recipe quantizes, and how the result names them. Pure; reads headers alone.

Always in high precision: `in_proj_a`, `in_proj_b`, `conv1d`, norms, the embedding, the MTP head, a vision
tower; the head unless asked (FACTS §3). Names in what is written are regular expressions without layer
numbers, so that layers may be taken out later; only `keep=edges` must name layers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import CheckpointFiles
from experiments.engines.reference.packed_layout import PACK_QUANTIZED, stored_quantized
from experiments.measurement.evidence import Json
from experiments.space.legality import EXPERTS_NOT_QUANTIZED
from experiments.stages.quantize.recipe import QuantizationRecipe

TRUNK_PREFIXES = ("model.language_model.", "model.")
"""What stands before `layers.N` in a wrapper's checkpoint and in a text model's."""

HEAD = "lm_head"

ATTENTION_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
GDN_PROJECTIONS = ("in_proj_qkv", "in_proj_z", "out_proj")
MLP_PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
"""Linear layers that are quantized, by the block they stand in."""

KINDS: Mapping[str, str] = {
    **{f"self_attn.{name}": rf"re:.*self_attn\.{name}$" for name in ATTENTION_PROJECTIONS},
    **{f"linear_attn.{name}": rf"re:.*linear_attn\.{name}$" for name in GDN_PROJECTIONS},
    **{f"mlp.{name}": rf"re:.*mlp\.{name}$" for name in MLP_PROJECTIONS},
    HEAD: rf"re:(.*\.)?{HEAD}$",
}
"""Kinds of modules that can be quantized, each with the expression that names all of its kind."""

ALWAYS_HIGH = (
    r"re:.*linear_attn\.in_proj_[ab]$",
    r"re:.*linear_attn\.conv1d$",
    r"re:.*visual.*",
    "mtp",
    r"re:.*mtp.*",
)
"""Entries of `ignore` in every result. `mtp` stands there by name too, for vLLM (vllm#53387)."""

OUT_PROJ = "linear_attn.out_proj"

_LAYER = re.compile(r"model\.layers\.(\d+)\.")


@dataclass(frozen=True)
class PlannedModule:
    """One module to quantize: `stored` is its name in the files, `module` in the text model, `source` the
    tensor of the files that its weight is read from (of a tied head, the embedding)."""

    stored: str
    module: str
    kind: str
    bits: int
    outputs: int
    inputs: int
    source: str

    @property
    def layer(self) -> int | None:
        """The number of its layer, None for the head."""
        found = _LAYER.match(self.module)
        return None if found is None else int(found[1])

    @property
    def weight(self) -> str:
        """The name of its dense weight in the files."""
        return f"{self.stored}.weight"


def plan(files: CheckpointFiles, recipe: QuantizationRecipe) -> tuple[PlannedModule, ...]:
    """The modules that the recipe quantizes, in the order of the layers.

    Raises:
        Infeasible: `illegal` when the checkpoint is quantized already or the group size does not divide,
        `unsupported` for a Mixture of Experts, `checkpoint` when a layer lacks a weight.
    """
    if files.has_experts:
        raise Infeasible("unsupported", f"{files.folder}: {EXPERTS_NOT_QUANTIZED}")
    if stored_quantized(files):
        raise Infeasible(
            "illegal",
            f"The checkpoint at {files.folder} is quantized already; quantize the original instead.",
        )
    headers = files.headers()
    prefix = _trunk_prefix(files)
    planned = []
    for layer, kind in enumerate(files.layer_types):
        for name in _kinds_of_layer(kind):
            if not _kept(layer, name, files, recipe):
                stored = f"{prefix}layers.{layer}.{name}"
                planned.append(_planned(files, headers, stored, f"model.layers.{layer}.{name}", name, recipe))
    if recipe.lm_head:
        planned.append(_planned_head(files, headers, prefix, recipe))
    if not planned:
        raise Infeasible(
            "illegal",
            f"quantization.keep={recipe.keep} leaves none of {len(files.layer_types)} layers to quantize.",
        )
    _check_groups(planned, recipe)
    return tuple(planned)


def ties_head(files: CheckpointFiles) -> bool:
    """Whether the head is the embedding, and so has no weight of its own in the files."""
    return bool(files.text_config.get("tie_word_embeddings")) and f"{HEAD}.weight" not in files.tensors


def quantization_config(files: CheckpointFiles, recipe: QuantizationRecipe) -> dict[str, Json]:
    """What config.json says of the result: compressed-tensors, `pack-quantized`, a group of modules a width.

    Only fields that the versions from 0.15 on share are written, so that an engine with another version
    reads it.
    """
    kinds = [name for name in KINDS if name != HEAD or recipe.lm_head]
    if recipe.keep == "attention":
        kinds = [name for name in kinds if not name.startswith("self_attn.")]

    def bits(name: str) -> int:
        return recipe.out_proj_bits if name == OUT_PROJ else recipe.bits

    groups: dict[str, Json] = {}
    for width, names in groupby(sorted(kinds, key=lambda name: (bits(name), kinds.index(name))), key=bits):
        groups[f"group_{len(groups)}"] = {
            "targets": [KINDS[name] for name in names],
            "weights": {
                "num_bits": width,
                "type": "int",
                "symmetric": recipe.symmetric,
                "strategy": "group",
                "group_size": recipe.group_size,
                "dynamic": False,
                "actorder": None,
                "block_structure": None,
                "observer": "minmax",
                "observer_kwargs": {},
            },
            "input_activations": None,
            "output_activations": None,
            "format": PACK_QUANTIZED,
        }
    return {
        "quant_method": "compressed-tensors",
        "format": PACK_QUANTIZED,
        "quantization_status": "compressed",
        "config_groups": groups,
        "ignore": list(ignored(files, recipe)),
        "kv_cache_scheme": None,
        "global_compression_ratio": None,
    }


def ignored(files: CheckpointFiles, recipe: QuantizationRecipe) -> tuple[str, ...]:
    """The modules that stay in high precision, as `ignore` names them."""
    found = list(ALWAYS_HIGH)
    if not recipe.lm_head:
        found += [HEAD, rf"re:.*\.{HEAD}$"]  # by name, and under a wrapper's name
    if recipe.keep == "attention":
        found.append(r"re:.*self_attn\..*")
    if recipe.keep == "edges":
        found += [rf"re:.*layers\.{layer}\..*" for layer in sorted({0, len(files.layer_types) - 1})]
    return tuple(found)


def awq_mappings(files: CheckpointFiles, recipe: QuantizationRecipe) -> list[tuple[str, list[str]]]:
    """AWQ's pairs of a module whose output is scaled down and those whose inputs are scaled up for it.

    Names are regular expressions with `re:`, as llmcompressor takes them, for the text model's modules. Norms
    scale for the projections after them (`in_proj_a` and `in_proj_b` too, which stay in high precision),
    `up_proj` for `down_proj`.
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
        (layers, "post_attention_layernorm", "mlp", ("gate_proj", "up_proj")),
        (layers, r"mlp\.up_proj", "mlp", ("down_proj",)),
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


def config_of_layer(
    files: CheckpointFiles, recipe: QuantizationRecipe, *, head: bool = False
) -> dict[str, Json]:
    """As `quantization_config`, for a model that is one of the layers that are quantized, or the head alone:
    no layer is named by its number."""
    keep = "none" if recipe.keep == "edges" else recipe.keep
    return quantization_config(files, replace(recipe, keep=keep, lm_head=head))


def mappings_of_layer(
    files: CheckpointFiles, recipe: QuantizationRecipe, layer: int
) -> list[tuple[str, list[str]]]:
    """Those of `awq_mappings` that are a layer's, for a model that is this layer alone; none where nothing of
    it is scaled."""
    if recipe.method != "awq" or (recipe.keep == "edges" and layer in (0, len(files.layer_types) - 1)):
        return []
    alone = replace(files, layer_types=(files.layer_types[layer],))
    keep = "none" if recipe.keep == "edges" else recipe.keep
    return awq_mappings(alone, replace(recipe, keep=keep))


def rescaled(files: CheckpointFiles, recipe: QuantizationRecipe) -> frozenset[str]:
    """Stored names of dense tensors that AWQ changes: norms, and projections beside quantized ones."""
    if recipe.method != "awq":
        return frozenset()
    mappings = awq_mappings(files, recipe)
    touched = [
        re.compile(name.removeprefix("re:")) for smooth, names in mappings for name in (smooth, *names)
    ]
    quantized = {module.weight for module in plan(files, recipe)}
    prefix = _trunk_prefix(files)
    return frozenset(
        name
        for name in files.tensors
        if name.startswith(f"{prefix}layers.")
        and name not in quantized
        and any(pattern.match(f"model.{name[len(prefix) :]}".removesuffix(".weight")) for pattern in touched)
    )


def _kinds_of_layer(kind: str) -> tuple[str, ...]:
    if kind == "full_attention":
        block = tuple(f"self_attn.{name}" for name in ATTENTION_PROJECTIONS)
    else:
        block = tuple(f"linear_attn.{name}" for name in GDN_PROJECTIONS)
    return block + tuple(f"mlp.{name}" for name in MLP_PROJECTIONS)


def _kept(layer: int, name: str, files: CheckpointFiles, recipe: QuantizationRecipe) -> bool:
    if recipe.keep == "attention":
        return name.startswith("self_attn.")
    return recipe.keep == "edges" and layer in (0, len(files.layer_types) - 1)


def _trunk_prefix(files: CheckpointFiles) -> str:
    for prefix in TRUNK_PREFIXES:
        if any(name.startswith(f"{prefix}layers.") for name in files.tensors):
            return prefix
    raise Infeasible("checkpoint", f"The checkpoint at {files.folder} has no tensors of layers.")


def _planned(
    files: CheckpointFiles,
    headers: Mapping[str, Mapping[str, Sequence[int]]],
    stored: str,
    module: str,
    kind: str,
    recipe: QuantizationRecipe,
    weight: str | None = None,
) -> PlannedModule:
    source = weight or f"{stored}.weight"
    entry = headers.get(source)
    if entry is None or len(entry["shape"]) != 2:
        raise Infeasible("checkpoint", f"The checkpoint at {files.folder} has no matrix {source}.")
    outputs, inputs = entry["shape"]
    bits = recipe.out_proj_bits if kind == OUT_PROJ else recipe.bits
    return PlannedModule(stored, module, kind, bits, outputs, inputs, source)


def _planned_head(
    files: CheckpointFiles,
    headers: Mapping[str, Mapping[str, Sequence[int]]],
    prefix: str,
    recipe: QuantizationRecipe,
) -> PlannedModule:
    """The head; one that is tied gets tensors of its own, from the embedding."""
    weight = f"{prefix}embed_tokens.weight" if ties_head(files) else f"{HEAD}.weight"
    return _planned(files, headers, HEAD, HEAD, HEAD, recipe, weight)


def _check_groups(planned: Sequence[PlannedModule], recipe: QuantizationRecipe) -> None:
    """Raise `Infeasible` when a module's inputs are no whole number of groups."""
    wrong = [module for module in planned if module.inputs % recipe.group_size]
    if wrong:
        first = wrong[0]
        more = f", and those of {len(wrong) - 1} more modules" if len(wrong) > 1 else ""
        raise Infeasible(
            "illegal",
            f"quantization.group_size={recipe.group_size} does not divide the {first.inputs} inputs of "
            f"{first.stored} ({first.outputs} × {first.inputs}){more}.",
        )


def _any_of(numbers: Sequence[int]) -> str:
    return "|".join(map(str, numbers))

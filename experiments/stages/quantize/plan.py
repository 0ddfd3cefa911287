"""Which modules of a checkpoint a recipe quantizes, and how the result names them. Pure; reads headers alone.

Always in high precision: `in_proj_a`, `in_proj_b`, `conv1d`, norms, the embedding, the MTP head, a vision
tower, a Mixture of Experts' router and the gate of its shared expert; the head unless asked (FACTS §3). Only
`keep=edges` must name layers by their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import CheckpointFiles
from experiments.engines.reference.packed_layout import PACK_QUANTIZED, stored_quantized
from experiments.measurement.evidence import Json
from experiments.stages.quantize.modules import (
    HEAD,
    OUT_PROJ,
    ROUTERS,
    Headers,
    Linear,
    kinds,
    linears_of_layer,
    matrix,
)
from experiments.stages.quantize.recipe import QuantizationRecipe

TRUNK_PREFIXES = ("model.language_model.", "model.")
"""What stands before `layers.N` in a wrapper's checkpoint and in a text model's."""

ALWAYS_HIGH = (
    r"re:.*linear_attn\.in_proj_[ab]$",
    r"re:.*linear_attn\.conv1d$",
    r"re:.*visual.*",
    "mtp",
    r"re:.*mtp.*",
)
"""Entries of `ignore` in every result. `mtp` stands there by name too, for vLLM (vllm#53387)."""

_LAYER = re.compile(r"model\.layers\.(\d+)\.")


@dataclass(frozen=True)
class PlannedModule:
    """One module to quantize: `stored` is its name in the files, `module` in the text model, `source` the
    tensor of the files that its weight is read from: of a tied head the embedding, of an expert the one that
    holds all of its layer, where they are stored so."""

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
        """The name that its dense weight has, or would have, in the files."""
        return f"{self.stored}.weight"

    @property
    def replaced(self) -> str:
        """The tensor of the files that the packed ones stand for; a tied head's embedding stays."""
        return self.weight if self.module == HEAD else self.source


def plan(files: CheckpointFiles, recipe: QuantizationRecipe) -> tuple[PlannedModule, ...]:
    """The modules that the recipe quantizes, in the order of the layers.

    Raises:
        Infeasible: `illegal` when the checkpoint is quantized already or the group size does not divide,
        `checkpoint` when a layer lacks a weight.
    """
    if stored_quantized(files):
        raise Infeasible(
            "illegal",
            f"The checkpoint at {files.folder} is quantized already; quantize the original instead.",
        )
    headers = files.headers()
    prefix = trunk_prefix(files)
    planned = []
    for layer in range(len(files.layer_types)):
        of_layer = f"{prefix}layers.{layer}."
        for found in linears_of_layer(files, headers, of_layer, layer):
            if not _kept(layer, found.name, files, recipe):
                planned.append(_planned(found, of_layer, f"model.layers.{layer}.", recipe))
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
    named = kinds(files)
    asked = [name for name in named if name != HEAD or recipe.lm_head]
    if recipe.keep == "attention":
        asked = [name for name in asked if not name.startswith("self_attn.")]

    def bits(name: str) -> int:
        return recipe.out_proj_bits if name == OUT_PROJ else recipe.bits

    groups: dict[str, Json] = {}
    for width, names in groupby(sorted(asked, key=lambda name: (bits(name), asked.index(name))), key=bits):
        groups[f"group_{len(groups)}"] = {
            "targets": [named[name] for name in names],
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
    if files.has_experts:
        found += [rf"re:.*mlp\.{name}$" for name in ROUTERS]
    if not recipe.lm_head:
        found += [HEAD, rf"re:.*\.{HEAD}$"]  # by name, and under a wrapper's name
    if recipe.keep == "attention":
        found.append(r"re:.*self_attn\..*")
    if recipe.keep == "edges":
        found += [rf"re:.*layers\.{layer}\..*" for layer in sorted({0, len(files.layer_types) - 1})]
    return tuple(found)


def config_of_layer(
    files: CheckpointFiles, recipe: QuantizationRecipe, *, head: bool = False
) -> dict[str, Json]:
    """As `quantization_config`, for a model that is one of the layers that are quantized, or the head alone:
    no layer is named by its number."""
    keep = "none" if recipe.keep == "edges" else recipe.keep
    return quantization_config(files, replace(recipe, keep=keep, lm_head=head))


def _kept(layer: int, name: str, files: CheckpointFiles, recipe: QuantizationRecipe) -> bool:
    if recipe.keep == "attention":
        return name.startswith("self_attn.")
    return recipe.keep == "edges" and layer in (0, len(files.layer_types) - 1)


def trunk_prefix(files: CheckpointFiles) -> str:
    """Which of `TRUNK_PREFIXES` the checkpoint has. Raises `Infeasible` (`checkpoint`) where it has none."""
    for prefix in TRUNK_PREFIXES:
        if any(name.startswith(f"{prefix}layers.") for name in files.tensors):
            return prefix
    raise Infeasible("checkpoint", f"The checkpoint at {files.folder} has no tensors of layers.")


def _planned(found: Linear, stored: str, module: str, recipe: QuantizationRecipe) -> PlannedModule:
    """`stored` and `module` begin its names in the files and in the text model."""
    bits = recipe.out_proj_bits if found.kind == OUT_PROJ else recipe.bits
    names = f"{stored}{found.name}", f"{module}{found.name}"
    return PlannedModule(*names, found.kind, bits, found.outputs, found.inputs, found.source)


def _planned_head(
    files: CheckpointFiles, headers: Headers, prefix: str, recipe: QuantizationRecipe
) -> PlannedModule:
    """The head; one that is tied gets tensors of its own, from the embedding."""
    weight = f"{prefix}embed_tokens.weight" if ties_head(files) else f"{HEAD}.weight"
    return _planned(matrix(files, headers, HEAD, HEAD, weight), "", "", recipe)


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

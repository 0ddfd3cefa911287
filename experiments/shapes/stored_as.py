"""How weights of a shape would be stored: from `quantization.*` to a `quantization_config`. Pure.

What a campaign's quantize stage writes is compressed-tensors `pack-quantized`; AutoAWQ's own layout (`awq`)
is what most published checkpoints have.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

from configs.models import ModelProfile, PartKind
from configs.weight_formats import BITS_PER_BYTE, SCALE_BITS, SIXTEEN_BIT
from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import CheckpointFiles
from experiments.engines.reference.packed_layout import AWQ_BITS
from experiments.shapes.config import shape_config
from experiments.space.configuration import Configuration
from experiments.stages.quantize.modules import OUT_PROJ
from experiments.stages.quantize.plan import quantization_config
from experiments.stages.quantize.recipe import QuantizationRecipe, recipe_of

AWQ_LEFT_OUT = ("visual", "in_proj_a", "in_proj_b", "in_proj_ba", "lm_head", "mtp")
"""Modules that AutoAWQ's `modules_to_not_convert` names: those that stay in 16 bits."""


SIXTEEN_BITS = "bfloat16"
"""What weights are stored as that nothing quantizes, in words."""


class StoredAs(StrEnum):
    """The layout of quantized weights."""

    COMPRESSED_TENSORS = "compressed-tensors"
    AWQ = "awq"


def quantization_of(
    profile: ModelProfile, configuration: Configuration, stored_as: StoredAs
) -> tuple[dict[str, Any] | None, QuantizationRecipe | None]:
    """The `quantization_config` that a configuration asks for, and its recipe; None twice for 16 bits.

    Raises:
        Infeasible: kind `illegal`, for what the layout can't hold, a head that is tied, a group size that
            does not divide, and a Mixture of Experts in AutoAWQ's.
    """
    recipe = recipe_of(configuration)
    if recipe is None:
        return None, None
    _check(profile, recipe, stored_as)
    if stored_as is StoredAs.AWQ:
        return _awq(recipe), recipe
    text = shape_config(profile, None)["text_config"]
    files = CheckpointFiles(Path(), text, profile.layer_types, {})
    return dict(quantization_config(files, recipe)), recipe


def described(recipe: QuantizationRecipe | None, stored_as: StoredAs) -> str:
    """The layout in words: `awq W4 g128 asymmetric`, `bfloat16`."""
    if recipe is None:
        return SIXTEEN_BITS
    symmetry = "symmetric" if recipe.symmetric else "asymmetric"
    head = ", lm_head too" if recipe.lm_head else ""
    out = f", W{recipe.out_proj_bits} in {OUT_PROJ}" if recipe.out_proj_bits != recipe.bits else ""
    return f"{stored_as} W{recipe.bits} g{recipe.group_size} {symmetry}{out}{head}"


def weight_bytes(profile: ModelProfile, recipe: QuantizationRecipe | None, *, with_mtp: bool) -> int:
    """Bytes of all weights that an engine loads; those that no quantizer touches take 16 bits."""
    bits = 0.0
    for part in profile.parts:
        if part.kind is PartKind.MTP and not with_mtp:
            continue
        packed = recipe is not None and part.kind is not PartKind.MTP
        if part.kind is PartKind.LM_HEAD:
            packed = packed and recipe is not None and recipe.lm_head
        width = SIXTEEN_BIT if recipe is None or not packed else _bits_per_weight(recipe)
        bits += part.matmul_parameters * width + part.other_parameters * SIXTEEN_BIT
    return round(bits / BITS_PER_BYTE)


def _bits_per_weight(recipe: QuantizationRecipe) -> float:
    zero_point = 0 if recipe.symmetric else recipe.bits
    return recipe.bits + (SCALE_BITS + zero_point) / recipe.group_size


def _awq(recipe: QuantizationRecipe) -> dict[str, Any]:
    return {
        "quant_method": "awq",
        "bits": recipe.bits,
        "group_size": recipe.group_size,
        "zero_point": True,
        "version": "gemm",
        "modules_to_not_convert": list(AWQ_LEFT_OUT),
    }


def _check(profile: ModelProfile, recipe: QuantizationRecipe, stored_as: StoredAs) -> None:
    def refuse(why: str) -> None:
        raise Infeasible("illegal", why)

    if recipe.lm_head and profile.tied_embeddings:
        refuse(
            f"The head of {profile.name} is its embedding, which vLLM serves in 16 bits: "
            "quantization.lm_head=quantized can't be a shape."
        )
    sizes = [profile.hidden, profile.intermediate, profile.attention_q_heads * profile.attention_head_dim]
    if profile.experts is not None:
        sizes.append(profile.experts.intermediate)
    wrong = next((size for size in sizes if size % recipe.group_size), None)
    if wrong is not None:
        refuse(
            f"quantization.group_size={recipe.group_size} does not divide {wrong} inputs of {profile.name}."
        )
    if stored_as is not StoredAs.AWQ:
        return
    if profile.experts is not None:
        refuse(
            f"{profile.name} is a Mixture of Experts, which was neither read nor tried in AutoAWQ's layout; "
            f"store it as {StoredAs.COMPRESSED_TENSORS}."
        )
    if recipe.bits != AWQ_BITS or recipe.out_proj_bits != AWQ_BITS:
        refuse(f"AutoAWQ's layout holds weights of {AWQ_BITS} bits alone; store it as compressed-tensors.")
    if recipe.symmetric or recipe.lm_head or recipe.keep != "none":
        refuse(
            "AutoAWQ's layout is asymmetric and leaves the head alone: set quantization.symmetric=false and "
            "quantization.lm_head=high, or store it as compressed-tensors."
        )

"""The DFlash drafter that a shape brings: the sizes of a published one beside that target, without weights.

An engine makes its weights up as it does the target's, so a step's time can be told and nothing of what is
accepted. One drafter is published for each size; what these have in common decides here (FACTS §4), and
docs/shapes.md says how near they are.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from configs.models import ModelProfile
from experiments.drafters.dflash.config import read_shape
from experiments.drafters.dflash.shape import DFlashShape
from experiments.drafters.dflash.target_layers import spread_layers
from experiments.shapes.config import MAX_POSITIONS, RMS_NORM_EPSILON, ROPE_THETA
from experiments.shapes.marker import is_shape

BLOCK_TOKENS = 16
"""Tokens of a block, the last known one included (FACTS §4)."""

DRAFT_LAYERS = 6
"""Layers of the drafter for Qwen3.5-9B (FACTS §4)."""

LAYERS_READ = 8
"""Layers of the target that it reads (FACTS §4)."""

HEAD_SIZE = 128
"""Size of a published drafter's heads, of which it has as many as are as wide as the target's together."""


@lru_cache(maxsize=8)  # a plan asks for it with each launch that it counts
def drafter_for(profile: ModelProfile) -> DFlashShape:
    """The drafter for a target of these sizes: layers as wide as the target's, and as all MLPs that a token
    goes through in a Mixture of Experts; attention as wide too."""
    head = min(HEAD_SIZE, profile.attention_head_dim)
    return DFlashShape(
        vocabulary=profile.vocabulary,
        hidden=profile.hidden,
        intermediate=profile.mlp_width,
        layers=DRAFT_LAYERS,
        query_heads=profile.attention_q_heads * profile.attention_head_dim // head,
        kv_heads=profile.attention_kv_heads * profile.attention_head_dim // head,
        head_size=head,
        block_tokens=BLOCK_TOKENS,
        mask_token_id=profile.vocabulary - 1,
        target_layer_ids=spread_layers(profile.layers, LAYERS_READ),
        target_layers=profile.layers,
        rope_theta=float(ROPE_THETA),
        max_positions=profile.max_positions or MAX_POSITIONS,
        rms_epsilon=RMS_NORM_EPSILON,
    )


def made_up_parameters(folder: Path) -> int | None:
    """How many weights are made up for the drafter of a folder; None of one with weights.

    Raises `Infeasible`, kind `checkpoint`, for a broken one.
    """
    return read_shape(folder, built_here=False).parameters if is_shape(folder) else None

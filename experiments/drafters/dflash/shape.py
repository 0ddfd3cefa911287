"""What a DFlash drafter is: its sizes, its block, which of the target's layers it reads. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise

SMALLEST_BLOCK_TOKENS = 2
"""The last known token and one drafted."""

RMS_EPSILON = 1e-6
"""Added to the mean square in every norm, as in Qwen3."""


@dataclass(frozen=True)
class DFlashShape:
    """The sizes of a drafter and its place beside a target.

    `block_tokens` counts the last known token too. `target_layer_ids` are the target's layers, from 0,
    ascending, after which its residual stream is read; `target_layers` is how many layers that target has
    (0: the file does not say). `mask_token_id` stands for a token to be drafted.
    """

    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    query_heads: int
    kv_heads: int
    head_size: int
    block_tokens: int
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    target_layers: int
    rope_theta: float
    max_positions: int
    rms_epsilon: float = RMS_EPSILON

    def __post_init__(self) -> None:
        free = ("mask_token_id", "target_layers", "target_layer_ids", "rope_theta", "rms_epsilon")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in free and value < 1:
                raise ValueError(f"{field.name} is {value}; it must be at least 1")
        if self.block_tokens < SMALLEST_BLOCK_TOKENS:
            raise ValueError(
                f"block_size is {self.block_tokens}; a block holds the last known token and at least one more"
            )
        if self.head_size % 2:
            raise ValueError(f"head_dim is {self.head_size}; rotation turns pairs, so it must be even")
        if self.query_heads % self.kv_heads:
            raise ValueError(
                f"{self.query_heads} query heads can't share {self.kv_heads} heads of keys and values"
            )
        if not 0 <= self.mask_token_id < self.vocabulary:
            raise ValueError(
                f"mask_token_id is {self.mask_token_id}, outside the vocabulary of {self.vocabulary}"
            )
        ids = self.target_layer_ids
        if not ids or ids[0] < 0 or any(later <= earlier for earlier, later in pairwise(ids)):
            raise ValueError(
                f"target_layer_ids is {list(ids)}; it must name layers from 0, each once, ascending"
            )
        if self.target_layers and ids[-1] >= self.target_layers:
            raise ValueError(
                f"target_layer_ids names layer {ids[-1]} of a target with {self.target_layers} layers"
            )

    @property
    def features(self) -> int:
        """Width of what is read of the target at one position."""
        return len(self.target_layer_ids) * self.hidden

    @property
    def parameters(self) -> int:
        """Weights of its own, which are all but the target's embedding and head."""
        attention = 2 * self.hidden * (self.query_heads + self.kv_heads) * self.head_size
        norms = 2 * self.hidden + 2 * self.head_size
        layer = attention + 3 * self.hidden * self.intermediate + norms
        return self.layers * layer + self.features * self.hidden + 2 * self.hidden

"""A DFlash drafter at work beside its target: the context of one sequence, and a block a call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.drafters.dflash.files import read_drafter
from experiments.drafters.dflash.network import ContextKeysValues, DFlashNetwork
from experiments.drafters.dflash.shape import DFlashShape
from experiments.drafters.dflash.target import fitted

SMALLEST_CAPACITY = 256
"""Positions of context that room is made for at first; it doubles when it is full."""


class DFlashDrafter:
    """Drafts for one sequence; see `experiments.drafters.port.HiddenStateDrafter`."""

    def __init__(self, network: DFlashNetwork, target: Qwen3_5ForCausalLM) -> None:
        shape = network.shape
        self._shape = shape
        self._network = network
        self._target = target
        self._block = torch.full((1, shape.block_tokens), shape.mask_token_id, device=target.device)
        self._offsets = torch.arange(shape.block_tokens, device=target.device)
        self._kept = _KeptContext(shape, target.device, target.dtype)

    @classmethod
    def load(
        cls, path: Path, target: Qwen3_5ForCausalLM, kept_layers: Sequence[int] | None = None
    ) -> DFlashDrafter:
        """Load the drafter in a folder; as `experiments.drafters.port.load_drafter`."""
        return cls(fitted(read_drafter(path), target, path, kept_layers), target)

    @property
    def target_layer_ids(self) -> tuple[int, ...]:
        """The target's layers, from 0, after which the residual stream is read."""
        return self._shape.target_layer_ids

    @property
    def block_tokens(self) -> int:
        """Tokens of a block, the last known one included."""
        return self._shape.block_tokens

    @property
    def parameters(self) -> int:
        """Weights of its own; embedding and head are the target's."""
        return sum(parameter.numel() for parameter in self._network.parameters())

    def reset(self) -> None:
        """Forget the sequence."""
        self._kept.length = 0

    @torch.inference_mode()
    def propose(self, last_token_id: int, features: Tensor, position: int) -> list[int]:
        """Draft the tokens after the last known one; see the port."""
        if features.ndim != 2 or features.shape[1] != self._shape.features:
            raise ValueError(
                f"features have the shape {tuple(features.shape)}, not [positions, {self._shape.features}]"
            )
        first = position - len(features)
        if not 0 <= first <= self._kept.length:
            raise ValueError(
                f"features begin at position {first}, but only {self._kept.length} were given before it"
            )
        self._kept.length = first
        if len(features):
            places = torch.arange(first, position, device=features.device)[None]
            states = features[None].to(self._target.dtype)
            self._kept.append(self._network.context(states, places))
        self._block[0, 0] = last_token_id
        embedded = self._target.model.embed_tokens(self._block)
        hidden = self._network(embedded, (self._offsets + position)[None], self._kept.so_far())
        logits = self._target.lm_head(hidden[:, 1:])
        drafted: list[int] = logits.argmax(-1)[0].tolist()
        return drafted


class _KeptContext:
    """Keys and values of every layer, of the positions from 0 up to `length`; what lies beyond is stale."""

    def __init__(self, shape: DFlashShape, device: torch.device, dtype: torch.dtype) -> None:
        self.length = 0
        self._rooms = [
            torch.zeros(2, 1, shape.kv_heads, SMALLEST_CAPACITY, shape.head_size, device=device, dtype=dtype)
            for _ in range(shape.layers)
        ]

    def append(self, context: ContextKeysValues) -> None:
        """Put the keys and values of the following positions after those that are there."""
        end = self.length + context[0][0].shape[2]
        for index, (keys, values) in enumerate(context):
            room = self._rooms[index]
            while room.shape[3] < end:
                room = torch.cat([room, torch.zeros_like(room)], dim=3)
            self._rooms[index] = room
            room[0, :, :, self.length : end] = keys
            room[1, :, :, self.length : end] = values
        self.length = end

    def so_far(self) -> ContextKeysValues:
        """Return the keys and values up to `length`, without copying."""
        return [(room[0, :, :, : self.length], room[1, :, :, : self.length]) for room in self._rooms]

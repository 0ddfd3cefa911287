"""In which number format the layers of a model are ranked, and whether it fits there now. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from configs.models import ModelProfile, PartKind
from experiments.engines.port import Infeasible

ITEM_BYTES = {"float32": 4, "bfloat16": 2}
"""Number formats that layers are ranked in, the preferred one first, with bytes a number."""

FLOAT32, BFLOAT16 = ITEM_BYTES

WEIGHTS_SHARE = 0.6
"""Weights may take this share of all memory: the rest is for the system, what the ranking takes beside them
(`Room.bytes_in`), and what else runs."""

LOGIT_BYTES_MAX = 64 * 2**20
"""Most bytes of one variant's float32 logits at once, for large vocabularies."""

LOGIT_COPIES = 4
"""Tensors of that size at once in each worker: logits and log-probabilities of the whole model and of a
variant."""

PROCESS_BYTES = 2**29
"""What a process with PyTorch takes before it loads anything: 0.4 GB were seen on a CPU."""


@dataclass(frozen=True)
class Room:
    """What ranking the layers of a model takes; `documents` are tokens of each, `workers` read one each."""

    profile: ModelProfile
    documents: Sequence[int]
    workers: int

    def bytes_in(self, dtype: str) -> int:
        """Bytes at most, in a format of `ITEM_BYTES`: the weights, the hidden states of all variants of the
        documents that are walked (twice, for they are joined), the whole model's of every document, and
        logits."""
        return ITEM_BYTES[dtype] * self.profile.text_parameters + self._beside_weights(dtype)

    def streamed_bytes_in(self, dtype: str) -> int:
        """The same with one layer in memory at a time, beside the embedding and the head."""
        layers: dict[int, int] = {}
        others = 0
        for part in self.profile.parts:
            if part.kind is PartKind.MTP:
                continue
            if part.layer is None:
                others += part.parameters
            else:
                layers[part.layer] = layers.get(part.layer, 0) + part.parameters
        one = 2 * max(layers.values())  # as it is read and as it computes
        return ITEM_BYTES[dtype] * (others + one) + self._beside_weights(dtype)

    def _beside_weights(self, dtype: str) -> int:
        item, tokens = ITEM_BYTES[dtype], max(self.documents)
        state = item * tokens * self.profile.hidden
        logits = min(LOGIT_BYTES_MAX, 4 * tokens * self.profile.vocabulary)
        a_worker = 2 * (self.profile.layers + 1) * state + LOGIT_COPIES * logits
        kept = item * sum(self.documents) * self.profile.hidden
        return self.workers * a_worker + kept + PROCESS_BYTES


def format_for(profile: ModelProfile, total_bytes: int | None) -> str:
    """The number format in which a model's layers are ranked on a machine: the same whatever is free there.

    float32 where its weights take at most `WEIGHTS_SHARE` of the memory there is in all, or where that is not
    known; else bfloat16, which scores more coarsely.
    """
    weights = ITEM_BYTES[FLOAT32] * profile.text_parameters
    return FLOAT32 if total_bytes is None or weights <= WEIGHTS_SHARE * total_bytes else BFLOAT16


def fits_whole(room: Room, dtype: str, available_bytes: int, device: str) -> bool:
    """Whether the whole model fits, in its number format, into the memory that is available on a device now;
    false where one layer at a time does.

    Raises:
        Infeasible: kind `out_of_memory`, when not even that does. Another format is not taken in its place:
            of two rankings that are compared, one would be coarser for what else ran at that moment.
    """
    if room.bytes_in(dtype) <= available_bytes:
        return True
    needed = room.streamed_bytes_in(dtype)
    if needed > available_bytes:
        raise Infeasible(
            "out_of_memory",
            f"Ranking the layers of {room.profile.name} in {dtype}, the number format for a model of its "
            f"size on this machine, takes {needed / 1e9:.1f} GB even with one layer in "
            f"memory at a time, and {available_bytes / 1e9:.1f} GB are "
            f"available on {device} now: free some, or take a target with more memory or a smaller model.",
        )
    return False

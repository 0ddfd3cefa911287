"""Whether a model fits where its layers are to be ranked, and in which number format. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from configs.models import ModelProfile
from experiments.engines.port import Infeasible

ITEM_BYTES = {"float32": 4, "bfloat16": 2}
"""Number formats that layers are ranked in, the preferred one first, with bytes a number."""

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
        item, tokens = ITEM_BYTES[dtype], max(self.documents)
        state = item * tokens * self.profile.hidden
        logits = min(LOGIT_BYTES_MAX, 4 * tokens * self.profile.vocabulary)
        a_worker = 2 * (self.profile.layers + 1) * state + LOGIT_COPIES * logits
        kept = item * sum(self.documents) * self.profile.hidden
        return item * self.profile.text_parameters + self.workers * a_worker + kept + PROCESS_BYTES


def format_that_fits(room: Room, available_bytes: int, device: str) -> str:
    """The first of `ITEM_BYTES` in which the ranking fits into the memory that is available on a device.

    Raises:
        Infeasible: kind `out_of_memory`, when it fits in none.
    """
    needs = {dtype: room.bytes_in(dtype) for dtype in ITEM_BYTES}
    for dtype, needed in needs.items():
        if needed <= available_bytes:
            return dtype
    told = " and ".join(f"{needed / 1e9:.1f} GB in {dtype}" for dtype, needed in needs.items())
    raise Infeasible(
        "out_of_memory",
        f"Ranking the layers of {room.profile.name} takes {told}, and {available_bytes / 1e9:.1f} GB are "
        f"available on {device}: take a target with more memory, or a smaller model.",
    )

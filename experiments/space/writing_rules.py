"""What a GPU must hold for a model that writes its own calibration text (`quantization.corpus=self`). Pure.

Other corpora are read, and a checkpoint is quantized one layer after the other; to write, the whole model is
there in 16 bits, whatever it is served in later (`writing_process.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from configs.models import BFLOAT16_BYTES, ModelProfile
from configs.quantities import format_bytes
from experiments.space.configuration import KnobValue

ROWS_AT_ONCE = 64
"""Rows of a batch: enough to make a step's weights worth reading, few enough for a large model's state."""

CORPUS, SAMPLES, TOKENS = "quantization.corpus", "quantization.samples", "quantization.sample_tokens"

SELF = "self"

SAMPLED_BYTES = 16
"""Of each word of a row's vocabulary: its probability and what is summed up of them, in double precision."""


def writing_bytes(profile: ModelProfile, samples: int, tokens: int) -> int:
    """Bytes that are certain: weights in 16 bits, and for each row of a batch its GatedDeltaNet states, keys
    and values, and what is sampled from. PyTorch and what a step computes come beside."""
    a_row = profile.gdn_state_bytes + tokens * profile.kv_bytes_per_token + SAMPLED_BYTES * profile.vocabulary
    return BFLOAT16_BYTES * profile.text_parameters + min(samples, ROWS_AT_ONCE) * a_row


def writing_refused(
    configuration: Mapping[str, KnobValue], profile: ModelProfile, memory_bytes: int | None
) -> str | None:
    """Why a model can't write its calibration text on a GPU of so much memory (None: not known), in a
    sentence; None where it may, and where it is not asked to."""
    samples, tokens = configuration.get(SAMPLES), configuration.get(TOKENS)
    if memory_bytes is None or configuration.get(CORPUS) != SELF:
        return None
    if not isinstance(samples, int) or not isinstance(tokens, int):
        return None
    needed = writing_bytes(profile, samples, tokens)
    if needed <= memory_bytes:
        return None
    return (
        f"For {CORPUS}={SELF} the whole model writes in 16 bits, {min(samples, ROWS_AT_ONCE)} samples at "
        f"once, and that takes {format_bytes(needed)} at least, where there are "
        f"{format_bytes(memory_bytes)}: take another corpus, which no model has to write."
    )

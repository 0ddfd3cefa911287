"""What a GPU must hold for a model that writes its own calibration text (`quantization.corpus=self`). Pure.

Other corpora are read, and a checkpoint is quantized one layer after the other; to write, the model that is
quantized is there whole in 16 bits, whatever it is served in later (`writing_process.py`). Where layers are
taken out before and nothing ranks them in the quantized model, they are gone by then.
"""

from __future__ import annotations

from collections.abc import Mapping

from configs.models import BFLOAT16_BYTES, ModelProfile
from configs.quantities import format_bytes
from experiments.space.configuration import KnobValue
from experiments.space.legality import KINDS_OF, LAYERS, RESTRICT

ROWS_AT_ONCE = 64
"""Rows of a batch: enough to make a step's weights worth reading, few enough for a large model's state."""

CORPUS, SAMPLES, TOKENS = "quantization.corpus", "quantization.samples", "quantization.sample_tokens"

SELF = "self"

WHOLE_QUANTIZED: Mapping[str, str] = {
    "pruning.order": "after_quantization",
    "pruning.ranked_on": "quantized",
}
"""Values for which the model is quantized with all its layers too: to be pruned, or to rank them in it."""

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
    writer = _writer(profile, configuration, samples, tokens)
    needed = writing_bytes(writer, samples, tokens)
    if needed <= memory_bytes:
        return None
    gone = profile.layers - writer.layers
    who = f"the model without {gone} of its {profile.layers} layers" if gone else "the whole model"
    return (
        f"For {CORPUS}={SELF} {who} writes in 16 bits, {min(samples, ROWS_AT_ONCE)} samples at "
        f"once, and that takes {format_bytes(needed)} at least, where there are "
        f"{format_bytes(memory_bytes)}: take another corpus, which no model has to write."
    )


def _writer(
    profile: ModelProfile, configuration: Mapping[str, KnobValue], samples: int, tokens: int
) -> ModelProfile:
    """The shape that writes: without the layers that are taken out before it is quantized. Which these are is
    not known before they are ranked, so those of the kind are taken without which the least is needed."""
    count = configuration.get(LAYERS)
    whole_too = any(configuration.get(knob) == value for knob, value in WHOLE_QUANTIZED.items())
    if whole_too or not isinstance(count, int):
        return profile
    kinds = KINDS_OF.get(str(configuration.get(RESTRICT, "any")), KINDS_OF["any"])
    places = [[at for at, each in enumerate(profile.layer_types) if each == kind] for kind in kinds]
    may_go = [of_kind[1:] for of_kind in places if len(of_kind) > 1]  # one of each kind stays
    may_go.sort(
        key=lambda of_kind: writing_bytes(profile.without_layers(frozenset(of_kind[:1])), samples, tokens)
    )
    return profile.without_layers(frozenset([at for of_kind in may_go for at in of_kind][:count]))

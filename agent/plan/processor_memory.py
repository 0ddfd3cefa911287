"""What a launch of the reference engine takes of a processor's memory, as that engine counts it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from configs.models import BFLOAT16_BYTES, ModelProfile
from configs.weight_formats import BFLOAT16, FLOAT32
from experiments.engines.launch_memory import WEIGHTS, Asked, Part
from experiments.engines.reference.memory import HEADROOM
from experiments.space.configuration import KnobValue
from experiments.stages.pruning.room import ITEM_BYTES, PROCESS_BYTES

DTYPE, DEFAULT_DTYPE = "serving.dtype", "float32"


def dense_step_bytes(profile: ModelProfile, configuration: Mapping[str, KnobValue], rows: float = 1) -> float:
    """Bytes of the weights that a step of so many rows reads where all of them are served in one number
    format."""
    dtype = str(configuration.get(DTYPE, DEFAULT_DTYPE))
    short = ITEM_BYTES.get(dtype, ITEM_BYTES[DEFAULT_DTYPE]) == BFLOAT16_BYTES
    return profile.weight_bytes_per_step(BFLOAT16 if short else FLOAT32, rows)


def dense_parts(
    profile: ModelProfile, configuration: Mapping[str, KnobValue], asked: Asked
) -> tuple[Part, ...]:
    """A launch, part by part: quantized weights are dequantized as they are loaded, and layers that pruning
    takes out count as if they stayed."""
    dtype = str(configuration.get(DTYPE, DEFAULT_DTYPE))
    item = ITEM_BYTES.get(dtype, ITEM_BYTES[DEFAULT_DTYPE])
    head = profile.mtp_parameters if configuration.get("drafting.method") == "mtp" else 0
    drafter = item * asked.drafter_bytes // ITEM_BYTES["bfloat16"]
    weights = item * profile.text_parameters
    found = (
        Part(WEIGHTS, weights, f"every parameter in {dtype}, dequantized"),
        Part("MTP head", item * head, f"its parameters in {dtype}"),
        Part("drafter", drafter, f"its parameters in {dtype}"),
        Part(
            "states, caches, activations",
            round((HEADROOM - 1) * (weights + item * head + drafter)),
            "a tenth of the weights; a guess",
        ),
        Part("process", PROCESS_BYTES, "with PyTorch, before it loads anything"),
    )
    return tuple(part for part in found if part.bytes)

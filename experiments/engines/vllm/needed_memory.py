"""What a launch of vLLM would take of a GPU, told before it loads: as a plan counts it, for this checkpoint.

Weights, drafter and cache are exact sums, what is beside them (`Part.guessed`) an upper guess. So a launch is
refused by the sums alone; where only the guesses say that it does not fit, that is told, and vLLM tries.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from configs.models import BFLOAT16_BYTES
from experiments.engines.launch_memory import WEIGHTS, Asked, Part, launch_parts, needed_bytes
from experiments.engines.reference.drafting.order import drafter_layers
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.reference.memory import drafter_parameters
from experiments.engines.reference.packed_layout import packing_of, stored_quantized
from experiments.engines.reference.shape import read_profile
from experiments.engines.reference.stored_weights import as_stored, bytes_by_part
from experiments.engines.vllm.order import chosen_knobs, drafting_of
from experiments.shapes.folder import shape_in
from experiments.shapes.stored_as import SIXTEEN_BITS
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.legality import QUANTIZATION, UNQUANTIZED
from experiments.space.stored_packing import StoredPacking

GB = 1e9

LEANER = "Take quantized weights, a smaller serving.max_model_len or fewer serving.max_sequences."
"""What to do where it is not known what would fit."""

NOT_SERVED = ("vision", "mtp")
"""Parts of a checkpoint that serving its text without drafting leaves out."""


def parts_needed(
    configuration: Configuration,
    checkpoint: Path,
    context_tokens: int,
    memory_bytes: int | None,
    scored_tokens: int = 0,
) -> tuple[Part, ...]:
    """What a launch takes by part on a card of so many bytes that is asked for sequences of `context_tokens`
    and scores documents of `scored_tokens` (made-up weights: none): weights as the configuration's stages
    will have stored them, whatever the checkpoint has before they ran; where they are quantized already, as
    they are.

    Raises `Infeasible` for a checkpoint or a drafter that can't be read.
    """
    count = part_counter(checkpoint, context_tokens, memory_bytes, configuration, scored_tokens)
    return count(configuration)


def part_counter(
    checkpoint: Path,
    context_tokens: int,
    memory_bytes: int | None,
    configuration: Configuration,
    scored_tokens: int = 0,
) -> Callable[[Configuration], tuple[Part, ...]]:
    """Counts the parts of a launch, as `parts_needed`, for `configuration` and for others that may stand in
    its place: of weights that these quantize otherwise nothing is stored yet."""
    profile, stored = read_profile(checkpoint), stored_bytes(checkpoint)
    if shape_in(checkpoint) is None and not _quantization(configuration):
        profile = as_stored(profile, inspect_checkpoint(checkpoint))  # so that layers may go
    scored = scored_tokens if shape_in(checkpoint) is None else 0

    def parts(each: Configuration) -> tuple[Part, ...]:
        drafter = BFLOAT16_BYTES * drafter_parameters(drafting_of(each), checkpoint)
        as_stored = stored if _quantization(each) == _quantization(configuration) else None
        asked = Asked(
            context_tokens,
            stored_weight_bytes=as_stored,
            drafter_bytes=drafter,
            drafter=drafter_layers(drafting_of(each), checkpoint),
            card_bytes=memory_bytes,
            scored_tokens=scored,
        )
        return launch_parts(profile, {**each, **chosen_knobs(each)}, asked)

    return parts


def stored_bytes(checkpoint: Path) -> int | None:
    """Bytes of weights that are served as they are stored, being quantized already; None of all others."""
    shape = shape_in(checkpoint)
    if shape is not None:
        return None if shape.stored == SIXTEEN_BITS else shape.weight_bytes
    files = inspect_checkpoint(checkpoint)
    if not stored_quantized(files):
        return None
    return sum(size for part, size in bytes_by_part(files).items() if part not in NOT_SERVED)


def packing_at(checkpoint: Path) -> StoredPacking | None:
    """How the weights of a checkpoint are packed as they are stored, where kernels can be named for that;
    None of all others, and of a shape without weights, which is quantized by what is asked of it."""
    return None if shape_in(checkpoint) is not None else packing_of(inspect_checkpoint(checkpoint))


def refusal(parts: tuple[Part, ...], launches: int, free_bytes: int, device: str) -> str | None:
    """Why so many launches side by side never fit into what is free, in a sentence; None where they may."""
    least = _least(parts)
    needed = launches * least
    if needed <= free_bytes:
        return None
    weights = sum(part.bytes for part in parts if part.name == WEIGHTS)
    return (
        f"{_told(launches)} {needed / GB:.1f} GB at least on {device} "
        f"(weights {weights / GB:.1f} GB, caches and what drafts {(least - weights) / GB:.1f} GB each) and "
        f"{free_bytes / GB:.1f} GB are free, {(needed - free_bytes) / GB:.1f} GB too few."
    )


def doubt(parts: tuple[Part, ...], launches: int, free_bytes: int, device: str) -> str | None:
    """What to say where so many launches fit by what is certain and not with the guesses; None elsewhere."""
    needed = launches * needed_bytes(parts)
    if needed <= free_bytes:
        return None
    guessed = launches * (needed_bytes(parts) - _least(parts))
    return (
        f"{_told(launches)} {needed / GB:.1f} GB on {device} with graphs, activations and the process, "
        f"{guessed / GB:.1f} GB of which are upper guesses, and {free_bytes / GB:.1f} GB are free: whether "
        "they fit is known when vLLM loads."
    )


def _quantization(configuration: Configuration) -> dict[str, KnobValue]:
    active = configuration.get(QUANTIZATION, UNQUANTIZED) != UNQUANTIZED
    return {k: v for k, v in configuration.items() if active and k.startswith("quantization.")}


def _least(parts: tuple[Part, ...]) -> int:
    return sum(part.bytes for part in parts if not part.guessed)


def _told(launches: int) -> str:
    return "A launch needs" if launches == 1 else f"The {launches} launches of a test need"

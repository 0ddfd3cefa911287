"""What a launch of the reference engine holds on a GPU, and whether the launches of a test fit. No torch.

Quantized weights are served dequantized, so all of them count in the type that is served; layers that
pruning takes out count as if they stayed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from configs.models import BFLOAT16_BYTES, FLOAT32_BYTES
from configs.weight_formats import BFLOAT16, FLOAT32, WeightFormat
from experiments.engines.device_memory import PREFILL_TOKENS, Held, refusal
from experiments.engines.port import Infeasible
from experiments.engines.reference.capacity import capacity_for
from experiments.engines.reference.drafting.order import DraftingOrder, drafter_folder
from experiments.engines.reference.memory import LAUNCHES_AT_ONCE, drafter_parameters
from experiments.engines.reference.shape import read_profile
from experiments.telemetry.free_memory import DeviceMemory

SERVED_FORMATS: dict[str, tuple[WeightFormat, int]] = {
    "float32": (FLOAT32, FLOAT32_BYTES),
    "bfloat16": (BFLOAT16, BFLOAT16_BYTES),
}
"""By `serving.dtype`: the format of weights, and bytes of a value of the KV cache."""


def check_fits_device(
    checkpoint: Path,
    dtype: str,
    drafting: DraftingOrder,
    context: int,
    device: str,
    memory: DeviceMemory,
    launches: int = LAUNCHES_AT_ONCE,
) -> None:
    """Whether so many launches, the two of a test, fit side by side into what is free of a device.

    Raises:
        Infeasible: kind `out_of_memory`, with the figures and what would fit.
        AutoinferError: as `held`.
    """
    choices = {}
    if dtype != "bfloat16":
        choices["serving.dtype=bfloat16"] = held(checkpoint, "bfloat16", drafting, context)
    if drafting.active:
        plain = DraftingOrder()
        choices["drafting.method=none"] = held(checkpoint, dtype, plain, context)
        if dtype != "bfloat16":
            choices["both"] = held(checkpoint, "bfloat16", plain, context)
    as_asked = held(checkpoint, dtype, drafting, context)
    refused = refusal(
        device,
        lambda tokens: at_context(as_asked, tokens),
        context,
        free_bytes=memory.free_bytes,
        total_bytes=memory.total_bytes,
        launches=launches,
        choices=choices,
    )
    if refused is not None:
        raise Infeasible("out_of_memory", refused)


def held(checkpoint: Path, dtype: str, drafting: DraftingOrder, context: int) -> Held:
    """What a launch holds, from config.json and headers alone.

    Raises:
        AutoinferError: where a folder's config.json does not tell the model's shape.
        Infeasible: as `drafter_parameters`.
    """
    weights, item_bytes = SERVED_FORMATS[dtype]
    drafter = None
    if drafting.method == "draft_model":
        drafter = held(drafter_folder(drafting, checkpoint), dtype, DraftingOrder(), context)
    found = Held(
        read_profile(checkpoint),
        weights,
        context,
        item_bytes=item_bytes,
        draft_tokens=drafting.draft_tokens,
        mtp=drafting.method == "mtp",
        drafter=drafter,
        drafter_bytes=item_bytes * drafter_parameters(drafting, checkpoint) if drafter is None else 0,
    )
    return at_context(found, context)


def at_context(found: Held, tokens: int) -> Held:
    """The same at another context: buffers of a power of two, and the cache that one prefill fills."""
    return replace(
        found,
        context=tokens,
        cached=capacity_for(tokens) + tokens,
        prefill=max(tokens, PREFILL_TOKENS),
        drafter=None if found.drafter is None else at_context(found.drafter, tokens),
    )

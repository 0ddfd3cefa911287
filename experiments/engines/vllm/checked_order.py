"""What a launch of vLLM is asked for, after all that can be known of it and its checkpoint without a load."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from experiments.engines.device_memory import CACHE_BYTES_MIN
from experiments.engines.port import Infeasible
from experiments.engines.reference.drafting.order import DraftingOrder, check_drafter
from experiments.engines.reference.expected_tensors import check_served_tensors
from experiments.engines.reference.inspection import (
    CONFIG_FILE,
    CheckpointFiles,
    inspect_checkpoint,
    json_object,
)
from experiments.engines.vllm.config_overrides import config_overrides
from experiments.engines.vllm.device_check import memory_of
from experiments.engines.vllm.order import VllmOrder, drafting_of, order_for
from experiments.engines.vllm.reserved_cache import cache_bytes
from experiments.shapes.folder import Shape, shape_files, shape_in
from experiments.space.configuration import Configuration
from experiments.space.legality import EXTERNAL_DRAFTERS


def checked_order(
    configuration: Configuration, checkpoint: Path, device: str, kept: str = ""
) -> tuple[VllmOrder, CheckpointFiles]:
    """The order of a launch, `kept` being where a checkpoint that is written anew for an older vLLM lies, and
    the checkpoint's files. Raises `Infeasible` for all that can be known of both."""
    order_for(configuration, str(checkpoint), device, CACHE_BYTES_MIN)
    shape = shape_in(checkpoint)
    if shape is None:
        files = inspect_checkpoint(checkpoint)
        check_served_tensors(files)
    else:
        files = shape_files(checkpoint)
    drafting = drafting_of(configuration)
    if drafting.active and shape is not None:
        check_dummy_drafting(drafting, shape, files)
    elif drafting.active:
        check_drafter(drafting, files, built_here=False)
    needed_bytes = cache_bytes(configuration, checkpoint, memory_of(device))
    dummy = shape is not None
    order = order_for(configuration, str(checkpoint), device, needed_bytes, kept, dummy=dummy)
    overrides = config_overrides(json_object(checkpoint / CONFIG_FILE))
    return replace(order, arguments=order.arguments | overrides), files


def check_dummy_drafting(drafting: DraftingOrder, shape: Shape, files: CheckpointFiles) -> None:
    """Raise `Infeasible`, kind `illegal`, for drafts that no made-up weights can give, and as `check_drafter`
    for a drafter of another model than the shape, of which `files` are."""
    if drafting.method == "mtp" and not shape.mtp_layers:
        raise Infeasible("illegal", f"The shape {shape.model} has no MTP head; draft with another method.")
    if drafting.method in EXTERNAL_DRAFTERS:
        check_drafter(drafting, files, built_here=False)
    if drafting.method == "ngram":
        raise Infeasible(
            "illegal",
            "What repeats in a text that made-up weights say means nothing: drafting.method=ngram "
            "can't be measured with --weights dummy.",
        )

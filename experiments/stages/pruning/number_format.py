"""The number format in which a checkpoint's layers are ranked on a device of this machine. Imports no torch.

Known before anything is loaded, because it is a part of the pruned checkpoint's key.
"""

from __future__ import annotations

import json
from pathlib import Path

from configs.checkpoints import profile_of_checkpoint
from configs.errors import AutoinferError
from configs.memory import usable_memory_bytes
from configs.models import ModelProfile
from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import CONFIG_FILE, CheckpointFiles, inspect_checkpoint
from experiments.stages.pruning.room import format_for
from experiments.telemetry.free_memory import MemoryUnknown, device_memory


def memory_in_all(device: str) -> int | None:
    """Bytes of memory that `cpu` or `cuda:N` has, free or not; None where the driver does not tell."""
    if device == "cpu":
        return usable_memory_bytes()
    try:
        return device_memory(device).total_bytes
    except MemoryUnknown:
        return None


def number_format(checkpoint: Path, total_bytes: int | None) -> str:
    """The format for a checkpoint where there are `total_bytes`; see `format_for`.

    Raises:
        Infeasible: kind `checkpoint` for one that is missing, broken, or of another architecture.
    """
    return format_for(profile_of(inspect_checkpoint(checkpoint)), total_bytes)


def profile_of(files: CheckpointFiles) -> ModelProfile:
    """The shape of a checkpoint's model. Raises `Infeasible` (`checkpoint`) for another architecture."""
    where = files.folder / CONFIG_FILE
    try:
        return profile_of_checkpoint(json.loads(where.read_bytes()), files.folder.name, str(where))
    except AutoinferError as error:
        raise Infeasible("checkpoint", error.message) from None

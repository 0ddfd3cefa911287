"""How many weights the files of a folder hold, from their headers alone. Imports no torch.

Packed ones count as the weights that their integers stand for, those of a drafter that are made up as what
they would be.

A folder may hold a checkpoint or a drafter, and be written anew in place: what was counted is kept while the
files' sizes and times stay the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import (
    CONFIG_FILE,
    MTP_PREFIXES,
    inspect_checkpoint,
    tensor_headers,
)
from experiments.engines.reference.packed_layout import PackedModule, packed_modules
from experiments.shapes.drafter import made_up_parameters

_LAYERS = "layers"


@dataclass(frozen=True)
class StoredParameters:
    """`parameters` are the weights without those of an MTP head, `mtp_layers` the layers of that head; 0
    where there is none, whatever config.json says."""

    parameters: int
    mtp_layers: int


def stored_parameters(folder: Path) -> StoredParameters | None:
    """Count the safetensors of a folder; None when there are none, unless a drafter's are made up, or they
    can't be read."""
    files = (*sorted(folder.glob("*.safetensors")), folder / CONFIG_FILE)
    try:
        if (made_up := made_up_parameters(folder)) is not None:
            return StoredParameters(made_up, 0)
        stats = [(path, path.stat()) for path in files if path.is_file()]
        return _counted(folder, tuple((path, each.st_size, each.st_mtime_ns) for path, each in stats))
    except (OSError, Infeasible):
        return None


@lru_cache(maxsize=64)
def _counted(folder: Path, stats: tuple[tuple[Path, int, int], ...]) -> StoredParameters | None:
    """Sizes and times are there to make the cache forget changed files."""
    weights = [path for path, _, _ in stats if path.name != CONFIG_FILE]
    if not weights:
        return None
    shapes = {name: entry["shape"] for path in weights for name, entry in tensor_headers(path).items()}
    packed = _packed(folder).values()
    parts = {part for module in packed for part in module.parts}
    head = [name for name in shapes if name.startswith(MTP_PREFIXES)]
    dense = sum(math.prod(shapes[name]) for name in shapes.keys() - parts - set(head))
    return StoredParameters(
        dense + sum(module.outputs * module.inputs for module in packed),
        len({_layer(name) for name in head} - {None}) or int(bool(head)),
    )


def _packed(folder: Path) -> Mapping[str, PackedModule]:
    """The packed modules; none of what is no Qwen3.5 checkpoint, such as a DFlash drafter.

    Raises `Infeasible` for a layout that is not read: its weights can't be counted.
    """
    try:
        files = inspect_checkpoint(folder)
    except Infeasible:
        return {}
    return packed_modules(files)


def _layer(name: str) -> str | None:
    """The number of the MTP layer that a tensor belongs to, as it is written; None for one of no layer."""
    words = name.split(".")
    return words[words.index(_LAYERS) + 1] if _LAYERS in words[:-1] else None

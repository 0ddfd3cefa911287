"""Writes a DFlash drafter for a pruned target as vLLM wants it: with the places of the layers that it reads.

vLLM reads the layers that the drafter's `config.json` names, whatever is left of the target. After depth
pruning they are others (`docs/drafters.md`), so a twin of the drafter is made that names them; where two fall
on one layer their blocks of `fc` are added. No other tensor is touched. Needs torch and safetensors for that
alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.drafters.dflash.config import from_config
from experiments.drafters.dflash.fitting import TargetSizes, layers_to_remap_by
from experiments.drafters.dflash.target_layers import distinct_places, remapped_layer_ids
from experiments.scratch import ScratchFolder

CONFIG_FILE = "config.json"
FC = "fc.weight"
"""The tensor with one block of columns for each layer that is read."""


def fitted_drafter(drafter: Path, target: Path, kept: Path) -> Path:
    """The folder of the drafter to serve with the checkpoint in `target`: its own, or below `kept` its twin
    for a pruned target.

    A twin is made once for a drafter's files as they are; two that are made at a time are the same. Raises
    `Infeasible`, kind `checkpoint`, for a drafter of another target.
    """
    config = json.loads((drafter / CONFIG_FILE).read_text(encoding="utf-8"))
    shape = from_config(config, str(drafter / CONFIG_FILE), built_here=False)
    whole = json.loads((target / CONFIG_FILE).read_text(encoding="utf-8"))
    kept_layers = layers_to_remap_by(shape, TargetSizes.of(whole.get("text_config", whole)), drafter)
    if kept_layers is None:
        return drafter
    stats = [(path.name, path.stat()) for path in sorted(drafter.iterdir()) if path.is_file()]
    told = [str(drafter), str(kept_layers), *(f"{name} {s.st_size} {s.st_mtime_ns}" for name, s in stats)]
    folder = kept / hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
    if not folder.is_dir():
        with ScratchFolder(".fitting", kept) as scratch:
            made = scratch / "made"
            write_fitted(drafter, config, shape.target_layer_ids, kept_layers, made)
            try:
                made.rename(folder)
            except OSError:  # another launch was first
                if not folder.is_dir():
                    raise
    return folder


def write_fitted(
    drafter: Path, config: dict[str, Any], read: Sequence[int], kept_layers: Sequence[int], folder: Path
) -> None:
    """Write the drafter, which reads the layers `read` of a whole target, into the new `folder` for one of
    which `kept_layers` are left."""
    places, blocks = distinct_places(remapped_layer_ids(read, kept_layers))
    inner = config["dflash_config"] | {"target_layer_ids": list(places)}
    changed = config | {"dflash_config": inner, "num_target_layers": len(kept_layers)}
    folder.mkdir(parents=True)
    for path in sorted(drafter.iterdir()):
        if path.is_file() and path.name != CONFIG_FILE:
            if path.suffix == ".safetensors" and len(places) < len(blocks):
                _write_merged(path, blocks, len(places), folder / path.name)
            else:
                (folder / path.name).symlink_to(path.resolve())  # gigabytes, and the same
    (folder / CONFIG_FILE).write_text(json.dumps(changed, indent=2), encoding="utf-8")


def _write_merged(path: Path, blocks: Sequence[int], count: int, out: Path) -> None:
    """The same tensors, the blocks of `fc` added that read one of `count` places; `blocks` has each one's."""
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(path, framework="pt") as stored:
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    if FC in tensors:
        before = tensors[FC].unflatten(1, (len(blocks), -1))
        merged = torch.zeros(before.shape[0], count, before.shape[2])  # added in float32
        merged.index_add_(1, torch.tensor(blocks), before.float())
        tensors[FC] = merged.to(before.dtype).flatten(1).contiguous()
    save_file(tensors, out, metadata={"format": "pt"})

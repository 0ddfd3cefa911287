"""Holds a quantized checkpoint against the one it was made from: no tensor may be lost, none may be new.

MTP weights that a quantizer drops make drafting silently useless (acceptance length 1.0), so names, types,
shapes and, where nothing was to change, bytes are compared. Pure but for reading the files.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import CheckpointFiles
from experiments.engines.reference.packed_layout import packed_modules
from experiments.stages.quantize.plan import PlannedModule

NAMES_SHOWN = 5
"""Names that a sentence lists before it only counts."""

_CHUNK_BYTES = 16 * 2**20


def check_carried(
    before: CheckpointFiles,
    after: CheckpointFiles,
    planned: Sequence[PlannedModule],
    rescaled: Collection[str],
) -> None:
    """Every tensor before must be there after: unchanged, rescaled in the same shape and type, or packed.

    Raises:
        Infeasible: kind `build_failed`, with the names that are lost, new or changed.
    """
    packed = packed_modules(after)
    wanted = before.tensors.keys() - {module.replaced for module in planned}
    expected = wanted | {part for module in planned for part in _parts(module, packed)}
    _refuse("lost", wanted - after.tensors.keys(), after)
    _refuse("not packed", {module.stored for module in planned if module.stored not in packed}, after)
    _refuse("new", after.tensors.keys() - expected, after)
    headers = before.headers(), after.headers()
    misshapen = {
        module.stored
        for module in planned
        if (packed[module.stored].outputs, packed[module.stored].inputs) != (module.outputs, module.inputs)
        or packed[module.stored].bits != module.bits
    }
    _refuse("packed in another shape", misshapen, after)
    changed = {
        name for name in wanted if any(headers[0][name][key] != headers[1][name][key] for key in _SAME)
    }
    changed |= {
        name
        for name in wanted - changed - set(rescaled)
        if not _same_bytes(before.tensors[name], headers[0][name], after.tensors[name], headers[1][name])
    }
    _refuse("changed", changed, after)


_SAME = ("dtype", "shape")
"""What a header says of a tensor beside where it lies."""


def _parts(module: PlannedModule, packed: Any) -> tuple[str, ...]:
    return tuple(packed[module.stored].parts) if module.stored in packed else ()


def _refuse(what: str, names: Collection[str], after: CheckpointFiles) -> None:
    if names:
        ordered = sorted(names)
        more = f" and {len(ordered) - NAMES_SHOWN} more" if len(ordered) > NAMES_SHOWN else ""
        raise Infeasible(
            "build_failed",
            f"Quantization did not carry the checkpoint over: {what} in {after.folder}: "
            f"{', '.join(ordered[:NAMES_SHOWN])}{more}.",
        )


def _same_bytes(one: Path, one_entry: dict[str, Any], other: Path, other_entry: dict[str, Any]) -> bool:
    start, end = one_entry["data_offsets"]
    other_start = other_entry["data_offsets"][0]
    with one.open("rb") as first, other.open("rb") as second:
        first.seek(_data_start(first.read(8)) + start)
        second.seek(_data_start(second.read(8)) + other_start)
        left = end - start
        while left:
            size = min(left, _CHUNK_BYTES)
            if first.read(size) != second.read(size):
                return False
            left -= size
    return True


def _data_start(length: bytes) -> int:
    """Where a safetensors file's data begin: after the header's length (8 bytes) and the header."""
    return 8 + int.from_bytes(length, "little")

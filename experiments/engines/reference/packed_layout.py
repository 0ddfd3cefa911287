"""What a quantized checkpoint stores, read from the headers of its files. Imports no torch.

Two layouts are read, whoever wrote them:

- `pack-quantized` of compressed-tensors (llmcompressor, vLLM): `weight_packed` holds rows of integers, the
  first in the lowest bits of each 32-bit word, raised by 2^(bits − 1); `weight_scale` one scale a row and
  group; `weight_zero_point`, where the integers are asymmetric, packed along the rows; `weight_shape`.
- `awq-gemm` of AutoAWQ: `qweight`, `qzeros`, `scales`, transposed, eight columns a word in the order
  `AWQ_COLUMN_ORDER`.

Weights are w = (q − zero point) · scale in both. `packed_tensors.py` computes them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import CheckpointFiles, told_quantization
from experiments.space.stored_packing import StoredPacking, stored_packing

PACK_QUANTIZED = "pack-quantized"
AWQ_GEMM = "awq-gemm"

AWQ_COLUMN_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""The column, of eight, that lies at each 4-bit place of a word, lowest first, in AutoAWQ's `gemm` layout."""

AWQ_BITS = 4
"""AutoAWQ packs 4-bit integers only."""

WORD_BITS = 32
"""Integers are packed into words of this many bits."""

READ_BITS = (2, 4, 8)
"""Widths that fill words without crossing from one into the next."""

LAYOUT_PARTS: Mapping[str, tuple[str, ...]] = {
    PACK_QUANTIZED: (
        *("weight_packed", "weight_scale", "weight_shape"),
        *("weight_zero_point", "weight_g_idx"),
    ),
    AWQ_GEMM: ("qweight", "qzeros", "scales"),
}
"""The tensors that stand for one weight in each layout, the one that is always there first."""

_NEEDED = {PACK_QUANTIZED: LAYOUT_PARTS[PACK_QUANTIZED][:3], AWQ_GEMM: LAYOUT_PARTS[AWQ_GEMM]}

PACKED_HEAD = ("lm_head.weight_packed", "lm_head.qweight")
"""The integers of an output head that is packed, as layouts name them."""

PACKED_EXPERTS = re.compile(r"\.experts\..*\.weight_packed$")
"""The integers of an expert that compressed-tensors packed."""

_SHAPE_FORMATS = {"I64": "<2q", "I32": "<2i"}


@dataclass(frozen=True)
class PackedModule:
    """One quantized module: `name` as its tensors are stored, `parts` the names of what it is stored in.

    A group is `group_size` inputs of one output that share a scale (and, unless symmetric, a zero point).
    """

    name: str
    layout: str
    bits: int
    group_size: int
    symmetric: bool
    outputs: int
    inputs: int
    parts: tuple[str, ...]

    @property
    def weight(self) -> str:
        """The name that the unpacked weight would be stored under."""
        return f"{self.name}.weight"

    @property
    def scheme(self) -> str:
        """Bits, group and symmetry, such as `W4 g128 asymmetric`."""
        return f"W{self.bits} g{self.group_size} {'symmetric' if self.symmetric else 'asymmetric'}"


def stored_quantized(files: CheckpointFiles) -> bool:
    """Whether weights are stored quantized: config.json says so, or a tensor is named as one of a layout."""
    ends = {end for parts in LAYOUT_PARTS.values() for end in parts}
    return files.quantization is not None or any(name.rpartition(".")[2] in ends for name in files.tensors)


def packing_of(files: CheckpointFiles) -> StoredPacking | None:
    """How weights are packed as they are stored, where an engine's kernels can be named for that; None of all
    others."""
    return packing_told(files.quantization, files.tensors)


def packing_told(quantization: Mapping[str, Any] | None, tensors: Iterable[str]) -> StoredPacking | None:
    """As `packing_of`, by what config.json tells of the weights and the names of their tensors."""
    names = tuple(tensors)
    return stored_packing(
        quantization,
        head=any(name.startswith(PACKED_HEAD) for name in names),
        experts=any(PACKED_EXPERTS.search(name) for name in names),
    )


def told_method(folder: Path) -> str | None:
    """What config.json of a folder calls the way its weights are quantized, such as `gptq`; None where it
    tells of none, or can't be read."""
    try:
        told = told_quantization(folder)
    except (OSError, ValueError, AttributeError):
        return None
    return None if told is None else str(told.get("quant_method", "quantized"))


def told_packing(folder: Path) -> StoredPacking | None:
    """The packing that a folder's config.json tells of, as `packing_of`, but for its output head and experts;
    of a folder that is not here, or can't be read, one without formats: what is wrong is told by who reads
    it."""
    try:
        return stored_packing(told_quantization(folder))
    except (OSError, ValueError, AttributeError):
        return StoredPacking(())


def unread_layout(quantization: Mapping[str, Any] | None) -> str | None:
    """How weights are stored that only an engine of others reads, as a clause of `quantization`, what
    config.json tells of them; None where their layout is read here, or they are not quantized."""
    if quantization is None:
        return None
    told = _layout(quantization)
    return None if told in LAYOUT_PARTS else told


def packed_modules(files: CheckpointFiles) -> dict[str, PackedModule]:
    """The quantized modules of a checkpoint by their stored name; none when it is not quantized.

    Raises:
        Infeasible: `unsupported` for a layout that is not read, `checkpoint` for parts that do not fit.
    """
    if files.quantization is None:
        return {}
    layout = _layout(files.quantization)
    if layout not in LAYOUT_PARTS:
        raise Infeasible(
            "unsupported",
            f"The checkpoint at {files.folder} is {layout}; autoinfer reads 'compressed-tensors' "
            f"({PACK_QUANTIZED}) and 'awq' (gemm, {AWQ_BITS} bits).",
        )
    first, ends = LAYOUT_PARTS[layout][0], LAYOUT_PARTS[layout]
    entries = files.headers()
    found: dict[str, PackedModule] = {}
    for name in files.tensors:
        module, _, last = name.rpartition(".")
        if last == first:
            parts = {end: entries[f"{module}.{end}"] for end in ends if f"{module}.{end}" in entries}
            missing = [end for end in _NEEDED[layout] if end not in parts]
            if missing:
                raise _broken(files, f"{module} has {first} but no {missing[0]}")
            found[module] = _module(files, layout, module, parts)
    if not found:
        raise _broken(files, f"its config.json calls it {layout}, but no tensor is named …{first}")
    return found


def _layout(told: Mapping[str, Any]) -> str:
    """The layout that config.json tells of: a key of `LAYOUT_PARTS`, else in words."""
    method = told.get("quant_method")
    if method == "awq":
        version, bits = str(told.get("version", "gemm")).lower(), told.get("bits")
        if version == "gemm" and bits == AWQ_BITS:
            return AWQ_GEMM
        return f"AWQ of version {version!r} with {bits} bits"
    if method == "compressed-tensors":
        groups = told.get("config_groups")
        schemes = [each for each in (groups.values() if isinstance(groups, dict) else ()) if each]
        formats = {(isinstance(each, dict) and each.get("format")) or told.get("format") for each in schemes}
        others = sorted(str(each) for each in (formats or {told.get("format")}) - {PACK_QUANTIZED})
        return f"compressed-tensors of format {', '.join(others)}" if others else PACK_QUANTIZED
    return f"quantized by {method!r}"


def _module(
    files: CheckpointFiles, layout: str, module: str, parts: Mapping[str, Mapping[str, Any]]
) -> PackedModule:
    names = tuple(f"{module}.{end}" for end in parts)
    shapes = {end: tuple(map(int, entry["shape"])) for end, entry in parts.items()}
    if layout == AWQ_GEMM:
        (inputs, words), (groups, outputs) = _two(files, module, shapes, "qweight", "scales")
        fits = words * (WORD_BITS // AWQ_BITS) == outputs and shapes["qzeros"] == (groups, words)
        bits, symmetric = AWQ_BITS, False
    else:
        outputs, inputs = _stored_shape(files, f"{module}.weight_shape", parts["weight_shape"])
        (rows, words), (scale_rows, groups) = _two(files, module, shapes, "weight_packed", "weight_scale")
        bits = words * WORD_BITS // max(inputs, 1)
        if bits not in READ_BITS and rows == outputs:
            raise Infeasible(
                "unsupported",
                f"{module} in {files.folder} is packed with {bits} bits; autoinfer reads "
                f"{', '.join(map(str, READ_BITS))}.",
            )
        fits = rows == scale_rows == outputs and bits in READ_BITS
        symmetric = "weight_zero_point" not in parts
        if not symmetric:
            packed_rows = -(-outputs * bits // WORD_BITS)
            fits = fits and shapes["weight_zero_point"] in ((packed_rows, groups), (outputs, groups))
    if not fits or groups < 1 or inputs % groups:
        told = ", ".join(f"{end} {'×'.join(map(str, shape))}" for end, shape in shapes.items())
        raise _broken(files, f"the parts of {module} do not fit each other ({told})")
    return PackedModule(module, layout, bits, inputs // groups, symmetric, outputs, inputs, names)


def _two(
    files: CheckpointFiles, module: str, shapes: Mapping[str, tuple[int, ...]], first: str, second: str
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Two shapes that must have two sizes each."""
    if len(shapes[first]) != 2 or len(shapes[second]) != 2:
        raise _broken(files, f"{first} or {second} of {module} is no matrix")
    return (shapes[first][0], shapes[first][1]), (shapes[second][0], shapes[second][1])


def _stored_shape(files: CheckpointFiles, name: str, entry: Mapping[str, Any]) -> tuple[int, int]:
    """The two numbers of a `weight_shape` tensor: outputs and inputs."""
    kind, (start, end) = _SHAPE_FORMATS.get(entry["dtype"]), entry["data_offsets"]
    if kind is None or end - start != struct.calcsize(kind):
        raise _broken(files, f"{name} does not hold two whole numbers")
    with files.tensors[name].open("rb") as file:
        (header_bytes,) = struct.unpack("<Q", file.read(8))
        file.seek(8 + header_bytes + start)
        outputs, inputs = struct.unpack(kind, file.read(end - start))
    return int(outputs), int(inputs)


def _broken(files: CheckpointFiles, what: str) -> Infeasible:
    return Infeasible("checkpoint", f"The quantized checkpoint at {files.folder} is not complete: {what}.")

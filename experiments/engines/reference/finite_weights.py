"""Whether the weights of a checkpoint are numbers: one NaN among them and a model computes nothing, which its
baseline would tell only once an engine has loaded it.

All of the text model's tensors of floating point are read once, as the checkpoint's fingerprint reads its
files; beside hashing that is next to nothing. So are the scales of quantized weights, and weights of 8-bit
floats; integers are numbers whatever their bits, and scales of activations, the MTP head and a vision tower
are not looked at. Minus infinity is a value as others where the model takes its exponential. Imports no
torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

import numpy as np

from experiments.engines.port import Infeasible
from experiments.engines.reference.expected_tensors import text_tensors, weight_scales
from experiments.engines.reference.inspection import CheckpointFiles, tensor_headers

READ_BYTES = 1 << 18
"""Bytes that are looked at at a time, a multiple of every value's: they stay in the processor's cache."""

EXPONENTS: Mapping[str, tuple[str, int]] = {
    "F16": ("<u2", 0x7C00),
    "BF16": ("<u2", 0x7F80),
    "F32": ("<u4", 0x7F80_0000),
    "F64": ("<u8", 0x7FF0_0000_0000_0000),
    "F8_E5M2": ("u1", 0x7C),
    "F8_E4M3": ("u1", 0x7F),
    "F8_E8M0": ("u1", 0xFF),
}
"""Of a header's `dtype` the unsigned integer of its size and the bits that are all set in NaN and the
infinities alone: those of the exponent (IEEE 754; bfloat16 is the upper half of a float32), of E4M3 those of
the fraction too and of E8M0 all, which have no infinities (OCP 8-bit floating point and microscaling)."""

EXPONENTIAL = ".A_log"
"""How the names end of tensors that only the exponential of is computed with: 0 for minus infinity."""


def check_finite(files: CheckpointFiles) -> None:
    """Whether the text model's values are all finite. What was found is kept while a file's size and time
    stay the same.

    Raises:
        Infeasible: kind `checkpoint`, with the first tensor that holds others, its file and what to do.
    """
    names = text_tensors(files) | weight_scales(files)
    for path in files.weight_files:
        try:
            stat = path.stat()
            found = _first(
                path, stat.st_size, stat.st_mtime_ns, frozenset(names & tensor_headers(path).keys())
            )
        except (OSError, ValueError) as cause:  # such as a file that was cut short meanwhile
            raise Infeasible("checkpoint", f"{path} can't be read: {cause}.") from None
        if found is not None:
            name, count, values = found
            which = (
                f"{count:,} values of {values:,} that are" if count > 1 else f"1 value of {values:,} that is"
            )
            raise Infeasible(
                "checkpoint",
                f"{name} in {path} holds {which} NaN or infinite, so that the model computes no numbers. The "
                "file was damaged, or written so: fetch it again, or save it anew from whole weights.",
            )


@lru_cache(maxsize=64)
def _first(
    path: Path, size_bytes: int, changed_ns: int, names: frozenset[str]
) -> tuple[str, int, int] | None:
    """The first of the file's tensors with values that are not finite, how many, and of how many."""
    headers = tensor_headers(path)
    begins = size_bytes - max((entry["data_offsets"][1] for entry in headers.values()), default=0)
    floats = [name for name in names if headers[name]["dtype"] in EXPONENTS]
    with path.open("rb") as file:
        for name in sorted(floats, key=lambda name: int(headers[name]["data_offsets"][0])):
            first, last = headers[name]["data_offsets"]
            file.seek(begins + first)
            integer, exponent = EXPONENTS[headers[name]["dtype"]]
            values = (last - first) // np.dtype(integer).itemsize
            count = _count(file, values, integer, exponent, spared=name.endswith(EXPONENTIAL))
            if count:
                return name, count, values
    return None


def _count(file: BinaryIO, values: int, integer: str, exponent: int, *, spared: bool) -> int:
    """How many of the next values are not finite; where it is `spared`, minus infinity is none of them."""
    size = np.dtype(integer).itemsize
    most = READ_BYTES // size
    minus_infinity = 1 << (8 * size - 1) | exponent
    count = 0
    for begin in range(0, values, most):
        bits = np.fromfile(file, integer, min(most, values - begin))
        if spared:
            bits[bits == minus_infinity] = 0
        bits &= exponent
        if bits.max() == exponent:
            count += int(np.count_nonzero(bits == exponent))
    return count

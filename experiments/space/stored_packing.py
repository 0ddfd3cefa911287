"""How the weights of a checkpoint are packed as they are stored, where vLLM multiplies them by kernels that
can be named. Pure.

Read in vLLM 0.32 and 0.33: compressed-tensors in integers without quantized activations, AutoAWQ and GPTQ
come to the same choice of kernels (`choose_mp_linear_kernel`), which `serving.linear_backend` narrows. Of
other layouts nothing is said, nor where only a part of what is quantized is packed so: a kernel that is named
would have to multiply the rest too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PACKED = "pack-quantized"
"""The format of compressed-tensors whose integers are packed."""

AWQ_GROUPS = (None, 32, 64, 128)
"""Groups in which vLLM takes AutoAWQ's layout to that choice; None: one scale for all inputs. Others are
multiplied by kernels of AWQ alone (`check_marlin_supported` in `auto_awq.py`)."""

GPTQ_BITS = (4, 8)
"""Bits in which vLLM reads GPTQ's layout (`TYPE_MAP` in `auto_gptq.py`)."""

UNORDERED = (None, "static", "weight")
"""Orders of activations (`actorder`) under which every kernel reads its inputs as they come."""


@dataclass(frozen=True)
class PackedFormat:
    """`group_size` are the inputs that share a scale, None: all of them; asymmetric ones have a zero
    point."""

    bits: int
    group_size: int | None
    symmetric: bool


@dataclass(frozen=True)
class StoredPacking:
    """All formats that weights of a checkpoint are packed in, and whether its output head is packed too, and
    the experts of a Mixture of Experts, these by compressed-tensors."""

    formats: tuple[PackedFormat, ...]
    head: bool = False
    experts: bool = False


def stored_packing(
    quantization: Mapping[str, Any] | None, *, head: bool = False, experts: bool = False
) -> StoredPacking | None:
    """The packing that config.json tells of in `quantization`; None where no kernel can be named for it, or
    nothing is quantized. `head` and `experts` tell whether these are packed."""
    if quantization is None:
        return None
    read = _READ.get(str(quantization.get("quant_method")))
    formats = [] if read is None else list(read(quantization))
    known = [each for each in formats if each is not None]
    if not known or known != formats:
        return None
    return StoredPacking(tuple(dict.fromkeys(known)), head, experts)


def _of_compressed_tensors(told: Mapping[str, Any]) -> Iterator[PackedFormat | None]:
    groups = told.get("config_groups")
    for each in groups.values() if isinstance(groups, Mapping) else ():
        weights = each.get("weights") if isinstance(each, Mapping) else None
        if not isinstance(weights, Mapping):
            yield None
            continue
        packed = (each.get("format") or told.get("format")) == PACKED
        plain = each.get("input_activations") is None and each.get("output_activations") is None
        integers = weights.get("type", "int") == "int" and not weights.get("dynamic")
        ordered = weights.get("actorder") in UNORDERED
        size = weights.get("group_size")
        in_groups = weights.get("strategy") in (None, "channel", "group")
        taken = packed and plain and integers and ordered and in_groups
        yield _format(weights.get("num_bits"), size, weights.get("symmetric", True)) if taken else None


def _of_awq(told: Mapping[str, Any]) -> Iterator[PackedFormat | None]:
    found = _format(told.get("bits"), told.get("group_size"), not told.get("zero_point", True))
    gemm = str(told.get("version", "gemm")).lower() == "gemm"
    taken = found is not None and gemm and found.bits == 4 and not found.symmetric
    yield found if found is not None and taken and found.group_size in AWQ_GROUPS else None


def _of_gptq(told: Mapping[str, Any]) -> Iterator[PackedFormat | None]:
    found = _format(told.get("bits"), told.get("group_size"), told.get("sym", True))
    alike = not told.get("desc_act") and not told.get("dynamic")
    yield found if found is not None and alike and found.symmetric and found.bits in GPTQ_BITS else None


def _format(bits: object, group_size: object, symmetric: object) -> PackedFormat | None:
    """The format of what a config says; None where it does not say that in numbers."""
    size = None if group_size in (None, -1) else group_size
    if not isinstance(bits, int) or not (size is None or isinstance(size, int)):
        return None
    return PackedFormat(bits, size, bool(symmetric))


_READ: Mapping[str, Callable[[Mapping[str, Any]], Iterator[PackedFormat | None]]] = {
    "compressed-tensors": _of_compressed_tensors,
    "awq": _of_awq,
    "gptq": _of_gptq,
}

"""The parts of a step out of the times of its kernels: what each took, moved and computed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.engines.port import PartTime
from experiments.engines.vllm.kernel_parts import LAYERS, KernelTime, kind_of

OUTSIDE = "outside"

US_PER_MS = 1e3

NOTHING: Mapping[str, int] = {}


def parts_of(
    kernels: Sequence[KernelTime],
    step_ms: float,
    weight_bytes: Mapping[str, int],
    cached: Mapping[str, int],
    operations: Mapping[str, int] = NOTHING,
) -> list[PartTime]:
    """The parts of a step of `step_ms` that kernels ran for, the longest first, and what lies outside.

    Bytes of weights and caches, and operations of products, are given by part.
    """
    us: dict[str, float] = {}
    launches: dict[str, float] = {}
    for each in kernels:
        us[each.part] = us.get(each.part, 0.0) + each.us
        launches[each.part] = launches.get(each.part, 0.0) + each.launches
    together_ms = sum(us.values()) / US_PER_MS
    scale = min(1.0, step_ms / together_ms) if together_ms else 1.0
    read, computed = _merged(weight_bytes, us), _merged(operations, us)
    found = [
        PartTime(
            part=part,
            kind=kind_of(part),
            time_ms=scale * us[part] / US_PER_MS,
            weight_bytes=read.get(part, 0),
            cache_bytes=cached.get(part, 0),
            launches=launches[part],
            operations=computed.get(part, 0),
        )
        for part in sorted(us, key=lambda each: -us[each])
    ]
    outside_ms = max(0.0, step_ms - scale * together_ms)
    return [*found, PartTime(OUTSIDE, kind_of(OUTSIDE), outside_ms, 0)]


def _merged(by_part: Mapping[str, int], ran: Mapping[str, float]) -> dict[str, int]:
    """Where it is not known which linear layer a product is of, they are one part: so is what is theirs."""
    found = dict(by_part)
    if LAYERS in ran:
        linear = [part for part in found if part not in ran and kind_of(part) == "gemm"]
        found[LAYERS] = sum(found.pop(part) for part in linear)
    return found

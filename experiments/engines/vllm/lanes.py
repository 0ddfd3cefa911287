"""How many processes that time kernels a machine bears side by side. Pure.

By its processors and its free memory, and by the free memory of the device: each lane has a context there
and holds one packed product while it is compiled; the one whose turn it is holds all of its copies too,
which are most of weights of 16 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from configs.models import BFLOAT16_BYTES
from experiments.engines.device_memory import PROCESS_BYTES
from experiments.engines.kernel_timings import Product
from experiments.engines.vllm.product_copies import copies_needed

MOST_LANES = 4

CORES_A_LANE, MEMORY_A_LANE = 4, 6 * 2**30
"""What a lane wants of the machine beside others: processors, and bytes of free memory; vLLM's imports alone
hold some gigabytes. A guess on the safe side."""

PACKED_SHARE = 1 / 2
"""Bytes of packed weights over those of 16 bits, at most: the widest format has 8 bits."""

LARGEST_CACHE_BYTES = 128 * 2**20
"""What a GPU's L2 cache is taken for here, where torch is not asked: as large as any has."""


@dataclass(frozen=True)
class Machine:
    """Processors, bytes of free memory, and those of the device; None where its driver does not say."""

    cores: int
    free_bytes: int
    device_free_bytes: int | None


def lanes_for(device: str, machine: Machine, products: Sequence[Product]) -> int:
    """How many lanes a machine bears, one at least: one on a CPU, where each would slow the others, and on a
    device whose free memory is not known."""
    if device == "cpu" or machine.device_free_bytes is None:
        return 1
    on_device = (machine.device_free_bytes - turn_bytes(products)) // lane_bytes(products)
    here = min(machine.cores // CORES_A_LANE, machine.free_bytes // MEMORY_A_LANE)
    return max(1, min(MOST_LANES, here, on_device))


def lane_bytes(products: Sequence[Product]) -> int:
    """Bytes that each lane holds on the device: its context, and the largest packed product."""
    return PROCESS_BYTES + round(PACKED_SHARE * max(map(_bytes, products), default=0))


def turn_bytes(products: Sequence[Product]) -> int:
    """Bytes more that the lane holds whose turn it is: all copies of the product that takes most, with
    weights of 16 bits."""
    sizes = map(_bytes, products)
    return max((size * copies_needed(size, LARGEST_CACHE_BYTES) for size in sizes), default=0)


def _bytes(product: Product) -> int:
    return BFLOAT16_BYTES * product.inputs * product.outputs

"""Kernel timings of the 9B shape as an H200 may tell them, made of what was measured there otherwise.

An H200 has not run the timing itself; an H100 has (docs/kernel-timings.md). Parts of `auto` (Machete),
`machete`, `marlin` and `humming` and of 16 bits are those of the profiled steps in docs/results/h200-9b.md
(*Where a step's time goes*; the head's from the steps with a packed one). `triton` took 21.9 ms a step more
than the engine's choice, all of which is put on its products here (docs/results/h200-campaign-18m.md,
E-0003). Conch was not installed.
"""

from __future__ import annotations

from collections.abc import Mapping

from configs.models import load_model_profile
from experiments.engines.kernel_timings import (
    HEAD,
    KERNEL,
    KernelTiming,
    KernelTimings,
    PartTiming,
    products_of,
)
from experiments.space.configuration import KnobValue

PRODUCTS = products_of(load_model_profile("qwen3.5-9b"))
ORDER = ("gate_up_proj", "down_proj", "in_proj_qkvz", "out_proj", "qkv_proj", "o_proj", HEAD)

SIXTEEN_BITS_US = (1536, 922, 655, 308, 178, 101, 469)
STEP_US: Mapping[str, tuple[int, ...]] = {
    "auto": (957, 613, 446, 294, 148, 99, 191),
    "humming": (741, 465, 363, 226, 112, 76, 163),
    "machete": (957, 613, 446, 294, 148, 99, 191),
    "marlin": (800, 582, 341, 214, 103, 71, 183),
    "triton": (9_160, 5_867, 4_269, 2_814, 1_416, 948, 191),
}
"""Microseconds of a step by part, weights of 4 bits in groups of 128, by value of the kernel's knob."""

REFUSED = {"conch": "ConchLinearKernel cannot implement due to: conch-triton-kernels is not installed"}
CLASSES = {
    "auto": "MacheteLinearKernel",
    "humming": "HummingLinearKernel",
    "machete": "MacheteLinearKernel",
    "marlin": "MarlinLinearKernel",
    "triton": "TritonW4A16LinearKernel",
}
"""What ran under each value."""

STORED: Mapping[str, KnobValue] = {
    "quantization.bits": 4,
    "quantization.group_size": 128,
    "quantization.symmetric": True,
}


def timing(step_us: tuple[int, ...], knobs: Mapping[str, KnobValue], kernel: str) -> KernelTiming:
    parts = tuple(
        PartTiming(each.part, each.count, step_us[ORDER.index(each.part)] / each.count, kernel=kernel)
        for each in PRODUCTS
    )
    return KernelTiming(knobs, parts)


def recorded(names: Mapping[str, str] | None = None) -> KernelTimings:
    """The timings, with labels of kernels exchanged as `names` has them (`auto` stays)."""
    told = names or {}
    packed = [
        timing(step_us, {**STORED, KERNEL: told.get(kernel, kernel)}, CLASSES[kernel])
        for kernel, step_us in STEP_US.items()
    ]
    packed += [
        KernelTiming(
            {**STORED, KERNEL: told.get(kernel, kernel)},
            tuple(PartTiming(each.part, each.count, refused=why) for each in PRODUCTS),
        )
        for kernel, why in REFUSED.items()
    ]
    plain = timing(SIXTEEN_BITS_US, {}, "UnquantizedLinearMethod")
    return KernelTimings(1, "made of profiled steps", plain, tuple(packed))

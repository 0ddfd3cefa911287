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


CUT_OFF = "The limit of 1 min 15 s was reached with 7 of 22 left."
CUT_OFF_SIXTEEN_BITS_US = (1591, 952, 680, 319, 185, 105, 497)
CUT_OFF_STEP_US: Mapping[tuple[int, int, bool, str], tuple[int | None, ...]] = {
    (4, 128, True, "auto"): (1077, 725, 468, 363, 154, 119, 193),
    (4, 128, True, "humming"): (667, 448, 356, 209, 115, 71, None),
    (4, 128, True, "machete"): (1078, 735, 470, 361, 155, 120, 195),
    (4, 128, True, "marlin"): (849, 647, 391, 254, 119, 84, 187),
    (4, 128, True, "triton"): (2906, 5390, 1683, 1375, 559, 457, 726),
    (4, 32, True, "marlin"): (862, 664, 399, 255, 121, 87, 191),
    (8, 128, True, "machete"): (1446, 921, 572, 406, 186, 137, 269),
    (8, 128, True, "marlin"): (1131, 777, 521, 293, 156, 97, 276),
    (4, 128, False, "machete"): (1120, 776, 478, 374, 159, 124, 217),
    (4, 128, False, "marlin"): (865, 653, 404, 260, 121, 87, 192),
}
"""What an H200 told of the 9B shape with vLLM 0.33 on 29 November 2026, microseconds of a step by part: bits,
group size, symmetry and the kernel's value (docs/results/h200-campaign-vllm-0.33.md). Of one kernel the limit
cut off the head."""

CUT_OFF_FIRST_CALLS_S = {"humming": (14.0, 18.4, 18.5, 14.7, 24.4, 0.0, 0.0)}
"""Seconds of its first calls by part; the others took 0.1 s together, or 6.9 (triton), left out here."""


def cut_off(names: Mapping[str, str] | None = None) -> KernelTimings:
    """Those timings, with labels of kernels exchanged as in `recorded`."""
    told = names or {}
    packed = []
    for (bits, group, symmetric, kernel), step_us in CUT_OFF_STEP_US.items():
        knobs: dict[str, KnobValue] = {
            "quantization.bits": bits,
            "quantization.group_size": group,
            "quantization.symmetric": symmetric,
            KERNEL: told.get(kernel, kernel),
        }
        calls_s = CUT_OFF_FIRST_CALLS_S.get(kernel, (0.0,) * len(ORDER))
        parts = tuple(
            PartTiming(each.part, each.count, untimed=CUT_OFF, left=True)
            if us is None
            else PartTiming(
                each.part, each.count, us / each.count, kernel=CLASSES[kernel], first_call_s=call_s
            )
            for each, us, call_s in zip(PRODUCTS, step_us, calls_s, strict=True)
        )
        packed.append(KernelTiming(knobs, parts))
    plain = timing(CUT_OFF_SIXTEEN_BITS_US, {}, "UnquantizedLinearMethod")
    return KernelTimings(1, "calls over copies, in a CUDA graph", plain, tuple(packed), cut_off=CUT_OFF)


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

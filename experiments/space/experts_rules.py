"""Which packed experts of a Mixture of Experts vLLM has no kernel for on a GPU. Pure.

Read in `select_wna16_moe_backend` of 0.32 and 0.33, and in what each of its kernels supports: experts of 8
bits with zero points are in none, and no load gets past that ("No WNA16 MoE backend"). Which
kernels multiply experts of other formats stands in `moe_backend_rules.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from experiments.space.configuration import KnobValue
from experiments.space.gpu import VLLM, Gpu
from experiments.space.knob import written

BITS, SYMMETRIC = "quantization.bits", "quantization.symmetric"

SYMMETRIC_ALONE = (8,)
"""Bits of experts that are multiplied without zero points alone."""


def packed_experts_refused(
    configuration: Mapping[str, KnobValue], gpu: Gpu | None, *, has_experts: bool
) -> str | None:
    """Why no kernel multiplies the experts as a configuration packs them, in a sentence that says what to do;
    None where one does, where there are none, and where no GPU or no vLLM serves."""
    if not has_experts or gpu is None or gpu.engine != VLLM:
        return None
    bits = configuration.get(BITS)
    if configuration.get(SYMMETRIC) is not False or bits not in SYMMETRIC_ALONE:
        return None
    return (
        f"vLLM has no kernel for a Mixture of Experts' experts in {bits} bits with zero points: take "
        f"{SYMMETRIC}={written(True)}, or {BITS}=4."
    )

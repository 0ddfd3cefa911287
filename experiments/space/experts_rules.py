"""Which packed experts of a Mixture of Experts vLLM does not multiply on a GPU, or multiplies wrongly. Pure.

Read in `select_wna16_moe_backend` of 0.32 and 0.33, and in what each of its kernels supports: experts of 8
bits with zero points are in none, and no load gets past that ("No WNA16 MoE backend"). Which
kernels multiply experts of other formats stands in `moe_backend_rules.py`.

For Marlin both order the scales of an expert's first products by the expert's width, not by their inputs, the
hidden size (`_process_weights_marlin`, `_process_awq_weights_marlin`): where a group is as wide as an expert
they lie as for one group, and the kernel reads them as for several. With the scales in that order here most
prompts of a small mixture get another first token; 0.33 on an H200 answered 9 of 10 otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from configs.models import ModelProfile
from experiments.space.configuration import KnobValue
from experiments.space.gpu import VLLM, Gpu
from experiments.space.knob import in_words, written
from experiments.space.moe_backend_rules import (
    ASYMMETRIC_GROUPS,
    AUTO,
    GROUP_SIZE,
    MOE_BACKEND,
    PACKED_GROUPS,
    SYMMETRIC,
)
from experiments.space.stored_packing import PackedFormat, StoredPacking

BITS = "quantization.bits"

SYMMETRIC_ALONE = (8,)
"""Bits of experts that are multiplied without zero points alone."""

HUMMING_FIRST_ON = ("9.0",)
"""Compute capabilities at which vLLM takes Humming before Marlin (`prioritize_humming`); elsewhere it takes
Marlin before all others."""

MARLIN_HIDDEN = 128
"""What the hidden size must be a multiple of for Marlin (`check_moe_marlin_supports_config`)."""


@dataclass(frozen=True)
class ExpertSizes:
    """Inputs of an expert's products: `hidden` those of the first ones, `width` those of the last."""

    hidden: int
    width: int

    @classmethod
    def of(cls, profile: ModelProfile) -> ExpertSizes | None:
        """Those of a model; None of a dense one."""
        return None if profile.experts is None else cls(profile.hidden, profile.experts.intermediate)


def packed_experts_refused(
    configuration: Mapping[str, KnobValue],
    gpu: Gpu | None,
    sizes: ExpertSizes | None,
    packing: StoredPacking | None = None,
) -> str | None:
    """Why no kernel multiplies the experts as a configuration packs them or a checkpoint stores them
    (`packing`), or not rightly, in a sentence that says what to do; None where one does, where there are
    none, and where no GPU or no vLLM serves. Where a checkpoint stores several formats all must be against
    it, for which of them its experts have is not known."""
    if sizes is None or gpu is None or gpu.engine != VLLM:
        return None
    kernel, asked = str(configuration.get(MOE_BACKEND, AUTO)), _asked(configuration)
    if asked is not None:
        return _refused(asked, kernel, gpu, sizes, stored=False)
    if packing is None or not packing.experts:
        return None
    told = [_refused(each, kernel, gpu, sizes, stored=True) for each in packing.formats]
    return None if None in told else next(iter(told), None)


def _asked(configuration: Mapping[str, KnobValue]) -> PackedFormat | None:
    """The format that a configuration packs experts in; None where it packs none."""
    bits, size = configuration.get(BITS), configuration.get(GROUP_SIZE)
    if not isinstance(bits, int) or not (size is None or isinstance(size, int)):
        return None
    return PackedFormat(bits, size, configuration.get(SYMMETRIC) is not False)


def _refused(each: PackedFormat, kernel: str, gpu: Gpu, sizes: ExpertSizes, *, stored: bool) -> str | None:
    if each.bits in SYMMETRIC_ALONE and not each.symmetric:
        instead = "a checkpoint without them" if stored else f"{SYMMETRIC}={written(True)}, or {BITS}=4"
        return (
            f"vLLM has no kernel for a Mixture of Experts' experts in {each.bits} bits with zero points: "
            f"take {instead}."
        )
    if not _misread(each, sizes) or not _by_marlin(each, kernel, gpu, sizes):
        return None
    others = in_words(("humming", "triton") if _by_humming(each) else ("triton",))
    chosen = ", which vLLM would choose here," if kernel == AUTO else ""
    smaller = "" if stored else f", or a smaller {GROUP_SIZE}"
    return (
        f"Marlin{chosen} gives wrong answers where experts are packed in groups of {each.group_size}, as "
        f"wide as an expert: take {others} for {MOE_BACKEND}{smaller}."
    )


def _misread(each: PackedFormat, sizes: ExpertSizes) -> bool:
    """Whether vLLM orders scales of the first products for Marlin otherwise than the kernel reads them."""
    return each.group_size is not None and sizes.width <= each.group_size < sizes.hidden


def _by_marlin(each: PackedFormat, kernel: str, gpu: Gpu, sizes: ExpertSizes) -> bool:
    """Whether Marlin multiplies the experts; where the compute capability is not known, whether it may."""
    if kernel not in (AUTO, "marlin"):
        return False
    if kernel == AUTO and gpu.capability in HUMMING_FIRST_ON and _by_humming(each):
        return False
    return each.group_size in PACKED_GROUPS["marlin"] and not sizes.hidden % MARLIN_HIDDEN


def _by_humming(each: PackedFormat) -> bool:
    return each.symmetric or each.group_size in ASYMMETRIC_GROUPS["humming"]

"""What computes the experts of a Mixture of Experts on a GPU, by the format of their weights. Pure.

Read in vLLM 0.32 and 0.33 (`fused_moe/oracle`, and what each of its kernels supports); its own choices
ran on an H200 with 0.33, and of packed experts `marlin` and `triton` by name. A kernel that is named and does
not suit the weights ends the load, but for those that multiply quantized weights alone: experts of 16 bits
vLLM computes beside them as if none were named. Of a checkpoint that stores its experts quantized in another
way than packed by compressed-tensors nothing is said before its load.
"""

from __future__ import annotations

from collections.abc import Mapping

from configs.models import ModelProfile
from experiments.space.configuration import KnobValue
from experiments.space.gpu import VLLM, Gpu
from experiments.space.knob import SameBeside, in_words
from experiments.space.number_formats import WEIGHT_DTYPE
from experiments.space.stored_packing import PackedFormat, StoredPacking

MOE_BACKEND = "serving.moe_backend"

AUTO = "auto"

NO_EXPERTS = "This model has no experts."

FLASHINFER_CUTLASS = "flashinfer_cutlass"

FLASHINFER_CUTLASS_ON = ("9.0", "10", "12")
"""Compute capabilities, or the first numbers of such, with vLLM's `FlashInferExperts`."""

QUANTIZED_ALONE = ("humming", "marlin")
"""Kernels of quantized weights alone (`select_unquantized_moe_backend`)."""

FALLS_BACK_FROM: Mapping[str, tuple[int, int]] = {"marlin": (0, 33)}
"""The first version that computes experts of 16 bits beside such a kernel, where not all that were read do:
0.32 refuses to load them."""

OF_FP8 = ("marlin", "triton")
"""Kernels of experts that are rounded to 8-bit floats at the load, with one scale for a tensor
(`Fp8PerTensorOnlineMoEMethod`)."""

TRITON_FP8_FROM = (8, 9)
"""The first compute capability at which Triton computes in 8-bit floats (`supports_fp8`)."""

OF_PACKED = ("humming", "marlin", "triton")
"""Kernels of packed experts (`map_wna16_backend`)."""

PACKED_GROUPS: Mapping[str, tuple[int, ...]] = {"marlin": (32, 64, 128)}
"""Groups that a kernel of these multiplies, where not all do (`check_moe_marlin_supports_config`)."""

ASYMMETRIC_GROUPS: Mapping[str, tuple[int, ...]] = {"humming": (32,)}
"""The same beside zero points: of groups of 64 and 128 Humming was refused, and Marlin taken by itself."""

METHOD, UNQUANTIZED = "quantization.method", "none"
GROUP_SIZE, SYMMETRIC = "quantization.group_size", "quantization.symmetric"
KEEP, EDGES = "quantization.keep", "edges"
DRAFTING, MTP = "drafting.method", "mtp"
FP8 = "fp8"


def moe_backend_refused(backend: KnobValue, profile: ModelProfile, gpu: Gpu) -> str | None:
    """Why a value of `serving.moe_backend` can't serve such a model on such a GPU; None where nothing is
    known against it."""
    if backend == AUTO:
        return None
    if profile.experts is None:
        return NO_EXPERTS
    if backend != FLASHINFER_CUTLASS or gpu.capability is None:
        return None
    if any(each in (gpu.capability, gpu.capability.partition(".")[0]) for each in FLASHINFER_CUTLASS_ON):
        return None
    return (
        "vLLM computes experts by FlashInfer's CUTLASS at compute capability 9.0, 10.x and 12.x, and this "
        f"GPU has {gpu.capability}."
    )


def same_beside_sixteen_bits(*, has_experts: bool, stored_quantized: bool) -> tuple[SameBeside, ...]:
    """That kernels of quantized weights alone do beside experts of 16 bits what vLLM does by itself; of a
    checkpoint whose weights are quantized nothing."""
    if not has_experts or stored_quantized:
        return ()
    return tuple(
        SameBeside(
            kernel,
            AUTO,
            f"{kernel.capitalize()} multiplies quantized experts alone: those of 16 bits vLLM computes "
            "beside it as if nothing were named, so auto alone is timed.",
            WEIGHT_DTYPE,
            "stored",
        )
        for kernel in QUANTIZED_ALONE
    )


def experts_format_refused(
    configuration: Mapping[str, KnobValue],
    gpu: Gpu | None,
    *,
    stored_quantized: bool,
    packing: StoredPacking | None = None,
) -> str | None:
    """Why a kernel never computes experts in the configuration's format, or in that in which a checkpoint
    stores them (`packing`; of several all must be against it), in a sentence that says what to do; None where
    nothing is known against it, and where no GPU or no vLLM serves."""
    kernel = str(configuration.get(MOE_BACKEND, AUTO))
    if kernel == AUTO or gpu is None or gpu.engine != VLLM:
        return None
    if packing is not None and packing.experts:
        told = [_packed_refused(kernel, _asking_for(each)) for each in packing.formats]
        return None if None in told else next(iter(told), None)
    if stored_quantized:
        return None
    if configuration.get(METHOD, UNQUANTIZED) != UNQUANTIZED:
        return _packed_refused(kernel, configuration) or _sixteen_bits_refused(kernel, configuration, gpu)
    if configuration.get(WEIGHT_DTYPE) == FP8:
        if kernel not in OF_FP8:
            return _other(kernel, f"computes no experts that are rounded to {FP8} at the load", OF_FP8)
        if kernel == "triton" and gpu.below(*TRITON_FP8_FROM):
            return (
                f"Triton computes experts in {FP8} from compute capability 8.9 on, and this GPU has "
                f"{gpu.capability}: leave {MOE_BACKEND} at auto."
            )
        return None
    return _sixteen_bits_refused(kernel, configuration, gpu)


def _asking_for(each: PackedFormat) -> dict[str, KnobValue]:
    """A stored format as a configuration asks for it."""
    size = {} if each.group_size is None else {GROUP_SIZE: each.group_size}
    return {**size, SYMMETRIC: each.symmetric}


def _packed_refused(kernel: str, configuration: Mapping[str, KnobValue]) -> str | None:
    if kernel not in OF_PACKED:
        return _other(kernel, "computes no packed experts", OF_PACKED)
    size = configuration.get(GROUP_SIZE)
    groups = PACKED_GROUPS.get(kernel)
    if groups is not None and size is not None and size not in groups:
        return _other(kernel, f"computes no experts that are packed in groups of {size}", ())
    groups = ASYMMETRIC_GROUPS.get(kernel) if configuration.get(SYMMETRIC) is False else None
    if groups is not None and size is not None and size not in groups:
        return _other(kernel, f"computes no experts that are packed in groups of {size} with zero points", ())
    return None


def _sixteen_bits_refused(kernel: str, configuration: Mapping[str, KnobValue], gpu: Gpu) -> str | None:
    """Why a kernel of quantized weights can't stand beside experts of 16 bits, all of them or some, in the
    vLLM that serves; None where it can, and where it is not known which one serves."""
    first = FALLS_BACK_FROM.get(kernel)
    if first is None or gpu.version is None or gpu.version >= first:
        return None
    if configuration.get(METHOD, UNQUANTIZED) == UNQUANTIZED:
        which = "those of this model are stored so"
    elif configuration.get(KEEP) == EDGES:
        which = f"{KEEP}={EDGES} leaves some so"
    elif configuration.get(DRAFTING) == MTP:
        which = "the MTP head's stay so"
    else:
        return None
    version = ".".join(map(str, gpu.version))
    return _other(kernel, f"loads beside no experts of 16 bits in vLLM {version}, and {which}", ())


def _other(kernel: str, what: str, others: tuple[str, ...]) -> str:
    named = f"another {MOE_BACKEND}" if not others else f"{in_words(others)} for {MOE_BACKEND}"
    return f"{MOE_BACKEND}={kernel} {what}: take {named}, or leave it at auto."

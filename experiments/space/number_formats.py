"""Which number formats vLLM serves on a GPU, by its compute capability. Pure.

Read in vLLM's sources, 0.26 to 0.33, which say the same of all that stands here; copies of the output head
0.33 alone has.
"""

from __future__ import annotations

from collections.abc import Mapping

from configs.models import ModelProfile
from experiments.space.configuration import KnobValue
from experiments.space.gpu import Gpu

DTYPE = "serving.dtype"
WEIGHT_DTYPE = "serving.weight_dtype"
CACHE_DTYPE = "serving.kv_cache_dtype"
STATE_DTYPE = "serving.gdn_state_dtype"
DRAFT_LM_HEAD = "drafting.lm_head"

BFLOAT16_FROM = (8, 0)
"""The first compute capability with bfloat16 (`check_if_supports_dtype` in vLLM's `platforms/cuda.py`)."""

FP8_WEIGHTS_FROM = (7, 5)
"""The first for which vLLM rounds weights to 8-bit floats (`get_min_capability` of its online quantization).
Below 8.9 its Marlin kernel multiplies them with activations as they are; from there on these are rounded
too."""

DRAFT_LM_HEAD_FROM: Mapping[str, tuple[int, int]] = {"fp8": (8, 9), "nvfp4": (7, 5)}
"""The first for copies of the output head (vLLM 0.33): below it no kernel rounds activations to 8 bits too,
which vLLM insists on; 4-bit ones are multiplied by Marlin's kernel where no other one goes before it."""

FP8_ATTENTION_FROM = (8, 9)
"""The first on which Triton's attention, which takes every width of a head, keeps 8-bit keys and values."""

FLASHINFER_FROM = (8, 0)
"""The first on which FlashInfer's attention serves (its own sources go further down; vLLM doesn't)."""

FLASHINFER_HEADS = (64, 128, 256, 512)
"""The widths of an attention head that FlashInfer serves."""

NO_E5M2 = "9.0"
"""The compute capability on which vLLM plans FlashInfer's attention for queries as fp8_e5m2 beside keys of
that type and then makes them fp8_e4m3, so that no prompt is read: seen of 0.26 and 0.33 on an H200, read in
0.33's `get_q_data_type` and `maybe_quant_query`."""

NO_E5M2_READ = (10,)
"""The major compute capabilities for which 0.33's sources say the same, which nobody tried."""

ATTENTION = "full_attention"
"""The kind of layer that keeps keys and values."""


def dtype_refused(value: KnobValue, profile: ModelProfile, gpu: Gpu) -> str | None:
    """Why such a GPU can't compute in a type; None where nothing is known against it."""
    if value != "bfloat16" or not gpu.below(*BFLOAT16_FROM):
        return None
    return (
        f"vLLM computes in bfloat16 from compute capability 8.0 on, and this GPU has {gpu.capability}: take "
        f"{DTYPE}=float16."
    )


def weights_refused(value: KnobValue, profile: ModelProfile, gpu: Gpu) -> str | None:
    """Why weights can't be rounded to a type on such a GPU; None where nothing is known against it."""
    if value != "fp8" or not gpu.below(*FP8_WEIGHTS_FROM):
        return None
    return (
        "vLLM rounds weights to 8-bit floats from compute capability 7.5 on, and this GPU has "
        f"{gpu.capability}."
    )


def draft_lm_head_refused(value: KnobValue, profile: ModelProfile, gpu: Gpu) -> str | None:
    """Why a model can't be drafted for with such a copy of its output head on such a GPU; None where nothing
    is known against it."""
    first = DRAFT_LM_HEAD_FROM.get(str(value))
    if first is None or not gpu.below(*first):
        return None
    return (
        f"vLLM drafts with an output head in {value} from compute capability {first[0]}.{first[1]} on, and "
        f"this GPU has {gpu.capability}."
    )


def cache_refused(value: KnobValue, profile: ModelProfile, gpu: Gpu) -> str | None:
    """Why keys and values can't be kept in a type on such a GPU; None where nothing is known against it."""
    if gpu.capability == NO_E5M2 and _by_flashinfer_as_e5m2(value, profile):
        return (
            f"On compute capability {gpu.capability} vLLM asks FlashInfer's attention for queries in "
            "fp8_e5m2 and makes them fp8_e4m3, so that no prompt is read: take fp8_e4m3."
        )
    if not _is_fp8(value) or not gpu.below(*FP8_ATTENTION_FROM) or ATTENTION not in profile.layer_types:
        return None
    head = profile.attention_head_dim
    if not gpu.below(*FLASHINFER_FROM) and head in FLASHINFER_HEADS:
        return None
    least = "8.0" if head in FLASHINFER_HEADS else "8.9"
    return (
        f"vLLM keeps 8-bit keys and values of heads of {head} from compute capability {least} on, and this "
        f"GPU has {gpu.capability}."
    )


def cache_doubted(value: KnobValue, profile: ModelProfile, gpu: Gpu) -> str | None:
    """Why it is not known whether keys and values can be kept in a type on such a GPU; None where it is."""
    if gpu.number is not None and gpu.number[0] in NO_E5M2_READ and _by_flashinfer_as_e5m2(value, profile):
        return (
            "By its sources vLLM reads no prompt with keys in fp8_e5m2 on compute capability "
            f"{gpu.capability}, and that was not tried there: its load tells."
        )
    if not _is_fp8(value) or not gpu.below(*FP8_ATTENTION_FROM) or ATTENTION not in profile.layer_types:
        return None
    return (
        f"On compute capability {gpu.capability} FlashInfer's attention alone takes 8-bit keys and values; "
        "it is compiled when it first runs, and that was not tried there: its load tells."
    )


def state_doubted(value: KnobValue, profile: ModelProfile, gpu: Gpu) -> str | None:
    """Why it is not known whether GatedDeltaNet states can be kept in a type on such a GPU; None where it
    is."""
    if value != "bfloat16" or not gpu.below(*BFLOAT16_FROM):
        return None
    return (
        f"Whether vLLM's kernels read states in bfloat16 on compute capability {gpu.capability} was neither "
        "read nor tried; its load tells."
    )


def _by_flashinfer_as_e5m2(value: KnobValue, profile: ModelProfile) -> bool:
    """Whether FlashInfer's attention, which goes before Triton's where it serves the heads, would keep keys
    so."""
    return (
        value == "fp8_e5m2"
        and ATTENTION in profile.layer_types
        and profile.attention_head_dim in FLASHINFER_HEADS
    )


def _is_fp8(value: KnobValue) -> bool:
    return str(value).startswith("fp8")

"""Which kernels vLLM verifies drafts with in GatedDeltaNet layers: what it takes of each. Pure.

Read in `_fused_gdn_decode_unsupported_reason` and `_can_use_fused_gdn_mtp_decode` of vLLM 0.28 to 0.33: of
itself it takes one fused CUDA kernel where that serves, and Triton's elsewhere; asked for the first where it
does not serve the model, it refuses to load, and where a step has too many tokens, or heads share otherwise,
it runs Triton's.
"""

from __future__ import annotations

from collections.abc import Mapping

from configs.models import ModelProfile
from experiments.space.configuration import KnobValue
from experiments.space.gpu import Gpu
from experiments.space.number_formats import DTYPE

GDN_DECODE, CUDA, TRITON = "serving.gdn_decode_kernel", "cuda", "triton"

READ = tuple((0, minor) for minor in range(29, 34))
"""The versions of vLLM of which it is known what they choose by themselves. Not 0.28: where its CUDA kernel
does not serve, what it runs around Triton's is not what it runs when it is asked for them."""

FROM = (8, 0)
"""The first compute capability that the CUDA kernel serves on."""

HEAD = 128
"""The only width of heads, of keys and of values, that it serves."""

SHARED_BY = (1, 2, 3, 4, 8)
"""Heads of values that may share one of keys."""

SHARED_BY_IN: Mapping[tuple[int, int], tuple[int, ...]] = {(0, 28): (8,)}
"""The same of versions that differ."""

MOST_TOKENS = 8
"""Tokens of a sequence that it verifies at once at most (`MAX_FUSED_GDN_MTP_TOKENS`): the drafts and one."""

ACTIVATIONS = "bfloat16"
"""The only type of activations that it computes in."""

DRAFT_TOKENS = "drafting.draft_tokens"


def decode_refused(value: KnobValue, profile: ModelProfile, gpu: Gpu) -> str | None:
    """Why a value of `serving.gdn_decode_kernel` would not run for such a model on such a GPU; None where
    nothing is known against it."""
    return _triton_alone(profile, gpu) if value == CUDA else None


def decode_same(value: KnobValue, profile: ModelProfile, gpu: Gpu) -> str | None:
    """That a value of it runs the kernels of `auto` on such a GPU; None where it does not, or that is not
    known."""
    if gpu.number is None or gpu.version not in READ:
        return None
    if value != (CUDA if _triton_alone(profile, gpu) is None else TRITON):
        return None
    return (
        f"vLLM's own choice for drafts that GatedDeltaNet layers verify, auto, is {value} here: both are the "
        "same, so auto alone is timed."
    )


def decode_and_step_refused(configuration: Mapping[str, KnobValue]) -> str | None:
    """Why the CUDA kernel would not verify a configuration's drafts, and what to do; None where it would, or
    is not asked for."""
    if configuration.get(GDN_DECODE) != CUDA:
        return None
    dtype, drafts = configuration.get(DTYPE, ACTIVATIONS), configuration.get(DRAFT_TOKENS)
    if dtype != ACTIVATIONS:
        return (
            f"vLLM's CUDA kernel for GatedDeltaNet layers computes in {ACTIVATIONS} alone, and {DTYPE} is "
            f"{dtype}: leave {GDN_DECODE} at auto."
        )
    if isinstance(drafts, int) and drafts >= MOST_TOKENS:
        return (
            f"vLLM's CUDA kernel for GatedDeltaNet layers verifies {MOST_TOKENS - 1} drafts at most, and "
            f"{DRAFT_TOKENS} is {drafts}: take fewer, or leave {GDN_DECODE} at auto."
        )
    return None


def _triton_alone(profile: ModelProfile, gpu: Gpu) -> str | None:
    """Why the CUDA kernel never serves there, in a sentence; None where it does, or that is not known."""
    serves = "vLLM's CUDA kernel for GatedDeltaNet layers serves"
    if gpu.below(*FROM):
        return f"{serves} from compute capability 8.0 on, and this GPU has {gpu.capability}."
    for of, width in (("keys", profile.gdn_k_head_dim), ("values", profile.gdn_v_head_dim)):
        if width != HEAD:
            return f"{serves} heads of {HEAD} alone, and those of {of} have {width}."
    shared_by = profile.gdn_v_heads // profile.gdn_k_heads
    if gpu.version is not None and shared_by not in SHARED_BY_IN.get(gpu.version, (shared_by,)):
        told = " or ".join(map(str, SHARED_BY_IN[gpu.version]))
        ours = ".".join(map(str, gpu.version))
        return f"In {ours} {serves} {told} heads of values to one of keys alone: here {shared_by} share one."
    if shared_by not in SHARED_BY:
        return f"{serves} 1 to 4 or 8 heads of values to one of keys, and here {shared_by} share one."
    return None

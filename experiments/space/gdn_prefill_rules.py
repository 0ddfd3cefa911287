"""Which kernels vLLM reads prompts with in GatedDeltaNet layers on a GPU, whatever is named. Pure.

Read in `_resolve_gdn_prefill_backend` of vLLM 0.26 to 0.33: where it takes FlashInfer's kernels to serve,
both `auto` and `flashinfer` are these; everywhere else all names are Triton's, with no more than a warning in
the log. FlashInfer's serve heads of one width. On compute capability 9.0 vLLM takes them for any: read in
`delta_rule_sm90.py` of FlashInfer 0.6.14 to 0.7.2, which those versions want, and seen on an H200.
"""

from __future__ import annotations

from configs.models import ModelProfile
from experiments.space.configuration import KnobValue
from experiments.space.gpu import Gpu

GDN_PREFILL = "serving.gdn_prefill_backend"

HOPPER = "9.0"
"""The compute capability on which vLLM takes FlashInfer's kernels whatever the shape, in every version."""

BLACKWELL = (10, 12)
"""The major compute capabilities for which they serve from CUDA 13 on, and heads of one width."""

CONSUMER_BLACKWELL, CONSUMER_BLACKWELL_FROM = 12, (0, 30)
"""For which of them not before a version of vLLM, and which one: 0.29 knows 9.0 and 10.x alone."""

FLASHINFER_HEAD = 128
"""The only width of a key's head that they serve."""

TRITON_FROM = (8, 0)
"""The first compute capability that Triton names as supported (its README, since November 2024)."""

GDN = "linear_attention"
"""The kind of layer that these kernels are for."""

INSTEAD = "vLLM would run Triton's instead."


def prefill_refused(value: KnobValue, profile: ModelProfile, gpu: Gpu) -> str | None:
    """Why a value of `serving.gdn_prefill_backend` would not run on such a GPU, which vLLM warns of at most;
    None where nothing is known against it."""
    if value != "flashinfer":
        return None
    if _too_narrow_or_wide(profile, gpu):
        return f"{_heads(profile, gpu)}: vLLM would not load with it."
    return _triton_alone(profile, gpu)


def prefill_doubted(value: KnobValue, profile: ModelProfile, gpu: Gpu) -> str | None:
    """Why it is not known whether a value of it would run on such a GPU; None where it is known."""
    if value == "auto" and _too_narrow_or_wide(profile, gpu):
        return (
            f"{_heads(profile, gpu)}, but vLLM takes them there whatever the heads. vLLM 0.33 did not load "
            "so on an H200; where it does not, the baseline's sweep takes Triton's."
        )
    if value in ("auto", "triton") and gpu.below(*TRITON_FROM) and GDN in profile.layer_types:
        return (
            f"Triton supports GPUs from compute capability 8.0 on, and this GPU has {gpu.capability}: no "
            "other kernels read prompts in GatedDeltaNet layers there, and whether Triton's do was not "
            "tried; a load tells."
        )
    if value != "flashinfer" or gpu.number is None or gpu.capability == HOPPER:
        return None
    if _triton_alone(profile, gpu) is not None:
        return None
    built = "a vLLM that is built for CUDA 13 or later"
    if gpu.number[0] == CONSUMER_BLACKWELL and gpu.version is None:
        built = "vLLM 0.30 or later, built for CUDA 13 or later"
    return (
        f"On compute capability {gpu.capability} FlashInfer's kernels for prompts want {built}, which is not "
        "known before a load; else vLLM runs Triton's, and what ran is told of each launch."
    )


def prefill_same(value: KnobValue, profile: ModelProfile, gpu: Gpu) -> str | None:
    """That a value of it runs the kernels of `auto` on such a GPU; None where it does not, or that is not
    known."""
    if value == "flashinfer" and gpu.capability == HOPPER and profile.gdn_k_head_dim == FLASHINFER_HEAD:
        runs = "FlashInfer's"
    elif value == "triton" and _triton_alone(profile, gpu) is not None:
        runs = "Triton's"
    else:
        return None
    return (
        f"On compute capability {gpu.capability} vLLM's own choice, auto, is {runs} kernels for prompts: "
        "both are the same, so auto alone is timed."
    )


def _triton_alone(profile: ModelProfile, gpu: Gpu) -> str | None:
    """Why FlashInfer's kernels never serve there, in a sentence; None where they do, or that is not known."""
    if gpu.number is None or gpu.capability == HOPPER:
        return None
    major = gpu.number[0]
    if major not in BLACKWELL:
        return (
            "FlashInfer's kernels for prompts are built for compute capability 9.0, 10.x and 12.x, and this "
            f"GPU has {gpu.capability}: {INSTEAD}"
        )
    if major == CONSUMER_BLACKWELL and gpu.version is not None and gpu.version < CONSUMER_BLACKWELL_FROM:
        before = ".".join(map(str, gpu.version))
        return (
            f"vLLM {before} takes FlashInfer's kernels for prompts on compute capability 9.0 and 10.x alone, "
            f"from 0.30 on on 12.x too, and this GPU has {gpu.capability}: {INSTEAD}"
        )
    if profile.gdn_k_head_dim != FLASHINFER_HEAD:
        return f"{_heads(profile, gpu)}: {INSTEAD}"
    return None


def _too_narrow_or_wide(profile: ModelProfile, gpu: Gpu) -> bool:
    """Whether vLLM takes FlashInfer's kernels there for heads that they do not serve."""
    return gpu.capability == HOPPER and profile.gdn_k_head_dim != FLASHINFER_HEAD


def _heads(profile: ModelProfile, gpu: Gpu) -> str:
    return (
        f"FlashInfer's kernels for prompts serve heads of {FLASHINFER_HEAD} alone on compute capability "
        f"{gpu.capability}, and these have {profile.gdn_k_head_dim}"
    )

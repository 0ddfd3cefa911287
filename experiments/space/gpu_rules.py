"""What a GPU never serves of a space, by its compute capability, the model's shape and the engine. Pure.

Only what was read in an engine's source stands here, which is vLLM's (0.26 to 0.33); whatever else a GPU
lacks, its engine says (`check`). Of other engines nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product

from configs.models import ModelProfile
from experiments.space.configuration import KnobValue
from experiments.space.gdn_decode_rules import GDN_DECODE, decode_refused, decode_same
from experiments.space.gdn_prefill_rules import GDN_PREFILL, prefill_doubted, prefill_refused, prefill_same
from experiments.space.gpu import VLLM, Gpu
from experiments.space.knob import Same
from experiments.space.moe_backend_rules import MOE_BACKEND, moe_backend_refused
from experiments.space.number_formats import (
    CACHE_DTYPE,
    DRAFT_LM_HEAD,
    DTYPE,
    STATE_DTYPE,
    WEIGHT_DTYPE,
    cache_doubted,
    cache_refused,
    draft_lm_head_refused,
    dtype_refused,
    state_doubted,
    weights_refused,
)
from experiments.space.space import Space
from experiments.space.stored_packing import PackedFormat, StoredPacking

LINEAR_BACKEND = "serving.linear_backend"

AUTO = "auto"
"""The value of a knob that leaves the choice to the engine."""

MACHETE_CAPABILITY = "9.0"
"""Machete's kernels are built for Hopper alone (vLLM's `MacheteLinearKernel`)."""

CONCH_FROM = (8, 0)
"""The first compute capability that vLLM's `ConchLinearKernel` serves on."""

MARLIN_INPUTS, MARLIN_OUTPUTS = 128, 64
"""What a projection's inputs and outputs must be multiples of for Marlin (vLLM's `MarlinLinearKernel`)."""

EXLLAMA_ACTIVATIONS = "float16"
"""The only type of activations that vLLM's `ExllamaLinearKernel` multiplies."""

KERNEL_PACKAGES: Mapping[str, str] = {"conch": "conch-triton-kernels"}
"""Kernels that are a package of their own beside vLLM (vLLM's `ConchLinearKernel`)."""


KERNEL_GROUPS: Mapping[str, tuple[int, ...]] = {
    "machete": (64, 128),
    "conch": (128,),
    "marlin": (32, 64, 128),
    "triton": (32, 64, 128, 256),
}
"""Sizes of groups that a kernel multiplies, where not every one does (vLLM's `can_implement` of each; Machete
and Conch were seen to refuse groups of 32 in 0.26)."""

NO_WHOLE_ROWS = ("exllama",)
"""Kernels that multiply no weights with one scale for all inputs."""

ASYMMETRIC_BITS: Mapping[str, tuple[int, ...]] = {"exllama": (), "marlin": (4,)}
"""Bits of weights with zero points that a kernel multiplies, where it does not multiply them in all that it
does without (vLLM's `ExllamaLinearKernel` and `MarlinLinearKernel`)."""

KERNEL_BITS: Mapping[str, tuple[int, ...]] = {
    "triton": (4,),
    **dict.fromkeys(("conch", "exllama", "machete", "marlin"), (4, 8)),
}
"""Bits that a kernel multiplies, where not all do (vLLM's `can_implement` of each)."""

CAPABILITIES = ("12.0", "10.0", "9.0", "8.9", "8.6", "8.0", "7.5")
"""Compute capabilities of GPUs between which the rules tell, the newest first."""

GROUP_SIZE, SYMMETRIC = "quantization.group_size", "quantization.symmetric"
LM_HEAD = "quantization.lm_head"
BITS = ("quantization.bits", "quantization.out_proj_bits")


def kernel_and_format_refused(
    configuration: Mapping[str, KnobValue], packing: StoredPacking | None = None
) -> str | None:
    """Why a kernel never multiplies weights or activations of the configuration's formats, in whatever it
    multiplies them; None where nothing is known against it. vLLM takes no other one for a kernel that is
    named. `packing` is that of a checkpoint whose weights are packed as they are stored."""
    kernel = str(configuration.get(LINEAR_BACKEND, "auto"))
    dtype, size = configuration.get(DTYPE), configuration.get(GROUP_SIZE)
    if kernel == "exllama" and dtype not in (None, EXLLAMA_ACTIVATIONS):
        return f"Exllama multiplies {EXLLAMA_ACTIVATIONS} activations alone, and serving.dtype is {dtype}."
    cache, weights = configuration.get(CACHE_DTYPE), configuration.get(WEIGHT_DTYPE)
    if (cache, weights) == ("fp8_e5m2", "fp8"):  # vLLM's attention refuses the pair; seen in 0.26
        return f"vLLM keeps no keys and values as fp8_e5m2 beside {WEIGHT_DTYPE}=fp8."
    if configuration.get(DRAFT_LM_HEAD, "auto") != "auto":
        if configuration.get(LM_HEAD) == "quantized":  # neither was tried, both read in 0.33
            return f"For {DRAFT_LM_HEAD} vLLM copies heads of 16 bits alone, and {LM_HEAD} is quantized."
        if packing is not None and packing.head:
            return (
                f"For {DRAFT_LM_HEAD} vLLM copies heads of 16 bits alone, and the checkpoint's is packed: "
                "leave it at auto."
            )
    name, groups = kernel.capitalize(), KERNEL_GROUPS.get(kernel)
    if groups is not None and size is not None and size not in groups:
        return f"{name} multiplies groups of {_any(groups)} alone, and {GROUP_SIZE} is {size}."
    for knob in BITS:
        bits = configuration.get(knob)
        if bits is None:
            continue
        if bits not in KERNEL_BITS.get(kernel, (bits,)):
            return (
                f"{name} multiplies weights of {_any(KERNEL_BITS[kernel])} bits alone, and {knob} is {bits}."
            )
        if configuration.get(SYMMETRIC) is False and bits not in ASYMMETRIC_BITS.get(kernel, (bits,)):
            only = _any(ASYMMETRIC_BITS[kernel])
            told = f"asymmetric groups of {only} bits alone" if only else "symmetric groups alone"
            return f"{name} multiplies {told}, and {SYMMETRIC} is off with {knob}={bits}."
    return None


def stored_format_refused(kernel: KnobValue, packing: StoredPacking) -> str | None:
    """Why a kernel never multiplies weights that are packed as a checkpoint stores them, and what to do;
    None where nothing is known against it."""
    for each in packing.formats:
        if (only := _only(str(kernel), each)) is not None:
            return f"{str(kernel).capitalize()} {only}: take another {LINEAR_BACKEND}, or leave it at auto."
    return None


def _only(kernel: str, stored: PackedFormat) -> str | None:
    """What alone a kernel multiplies of what these weights are not, and what they are, as a clause."""
    bits, size, told = stored.bits, stored.group_size, "and the checkpoint's weights are stored"
    if bits not in KERNEL_BITS.get(kernel, (bits,)):
        return f"multiplies weights of {_any(KERNEL_BITS[kernel])} bits alone, {told} in {bits}"
    if size is None and kernel in NO_WHOLE_ROWS:
        return f"multiplies weights with a scale for each group alone, {told} with one for all inputs"
    if size is not None and size not in KERNEL_GROUPS.get(kernel, (size,)):
        return f"multiplies groups of {_any(KERNEL_GROUPS[kernel])} alone, {told} in groups of {size}"
    if not stored.symmetric and bits not in ASYMMETRIC_BITS.get(kernel, (bits,)):
        only = _any(ASYMMETRIC_BITS[kernel])
        ones = f"asymmetric weights of {only} bits alone" if only else "symmetric weights alone"
        return f"multiplies {ones}, {told} asymmetric in {bits} bits"
    return None


def _any(values: tuple[int, ...]) -> str:
    return " or ".join(map(str, values))


def not_served_by(space: Space, profile: ModelProfile, gpu: Gpu) -> dict[tuple[str, KnobValue], str]:
    """Why values of this space can't be served on a GPU, by knob and value."""
    return _told(_REFUSED_BY, space, profile, gpu)


def not_known_on(space: Space, profile: ModelProfile, gpu: Gpu) -> dict[tuple[str, KnobValue], str]:
    """Of which values of this space it is not known whether they are served on a GPU, and why; of one whose
    compute capability is not known these are all that some GPU does not serve."""
    if gpu.capability is not None:
        return _told(_DOUBTED_BY, space, profile, gpu)
    found: dict[tuple[str, KnobValue], str] = {}
    for rules, capability in product((_REFUSED_BY, _DOUBTED_BY), CAPABILITIES):
        for of, why in _told(rules, space, profile, replace(gpu, capability=capability)).items():
            found.setdefault(of, f"The card's compute capability is not known; if it is {capability}: {why}")
    return {of: why for of, why in found.items() if of not in not_served_by(space, profile, gpu)}


def same_on(space: Space, profile: ModelProfile, gpu: Gpu) -> dict[tuple[str, KnobValue], Same]:
    """Which values of this space do on a GPU what the engine's own choice does, and why."""
    told = _told(_SAME_BY, space, profile, gpu)
    return {(knob, value): Same(value, AUTO, why) for (knob, value), why in told.items()}


def refused_on(
    knobs: Mapping[str, KnobValue], profile: ModelProfile, gpu: Gpu
) -> tuple[str, KnobValue, str] | None:
    """The first knob, its value and why that can't be served on a GPU; None where nothing is known against
    them."""
    for knob, rule in _REFUSED_BY.items() if gpu.engine == VLLM else ():
        if knob in knobs and (why := rule(knobs[knob], profile, gpu)) is not None:
            return knob, knobs[knob], why
    return None


def _told(
    rules: Mapping[str, Rule], space: Space, profile: ModelProfile, gpu: Gpu
) -> dict[tuple[str, KnobValue], str]:
    if gpu.engine != VLLM:
        return {}
    asked = ((knob.name, value) for knob in space.knobs if knob.name in rules for value in knob.values)
    return {
        (name, value): why for name, value in asked if (why := rules[name](value, profile, gpu)) is not None
    }


def kernel_refused(backend: KnobValue, profile: ModelProfile, gpu: Gpu) -> str | None:
    """Why a value of `serving.linear_backend` can't serve such a model on such a GPU; None where nothing is
    known against it."""
    if backend == "machete":
        return _machete(gpu)
    if backend == "conch" and gpu.below(*CONCH_FROM):
        return f"vLLM runs Conch from compute capability 8.0 on, and this GPU has {gpu.capability}."
    return _marlin(profile) if backend == "marlin" else None


def _machete(gpu: Gpu) -> str | None:
    if gpu.capability is None or gpu.capability == MACHETE_CAPABILITY:
        return None
    built = f"Machete is built for compute capability {MACHETE_CAPABILITY}"
    return f"{built}, and this GPU has {gpu.capability}."


def _marlin(profile: ModelProfile) -> str | None:
    for name, inputs, outputs in _projections(profile):
        if inputs % MARLIN_INPUTS:
            return f"Marlin wants inputs in multiples of {MARLIN_INPUTS}, and {name} has {inputs}."
        if outputs % MARLIN_OUTPUTS:
            return f"Marlin wants outputs in multiples of {MARLIN_OUTPUTS}, and {name} has {outputs}."
    return None


def _projections(profile: ModelProfile) -> Iterator[tuple[str, int, int]]:
    """Each kind of projection with its inputs and outputs; experts are none, which other kernels multiply."""
    hidden, kinds = profile.hidden, set(profile.layer_types)
    mlp = "mlp" if profile.experts is None else "mlp.shared_expert"
    yield f"{mlp}.gate_proj", hidden, profile.intermediate
    yield f"{mlp}.down_proj", profile.intermediate, hidden
    if "full_attention" in kinds:
        queries = profile.attention_q_heads * profile.attention_head_dim
        yield "self_attn.q_proj", hidden, 2 * queries
        yield "self_attn.k_proj", hidden, profile.attention_kv_heads * profile.attention_head_dim
        yield "self_attn.o_proj", queries, hidden
    if "linear_attention" in kinds:
        values = profile.gdn_v_heads * profile.gdn_v_head_dim
        keys = profile.gdn_k_heads * profile.gdn_k_head_dim
        yield "linear_attn.in_proj_qkv", hidden, 2 * keys + values
        yield "linear_attn.out_proj", values, hidden


Rule = Callable[[KnobValue, ModelProfile, Gpu], str | None]
"""What is to be said of a knob's value on a GPU, in a sentence; None where nothing is."""

_REFUSED_BY: Mapping[str, Rule] = {
    DTYPE: dtype_refused,
    LINEAR_BACKEND: kernel_refused,
    MOE_BACKEND: moe_backend_refused,
    WEIGHT_DTYPE: weights_refused,
    CACHE_DTYPE: cache_refused,
    DRAFT_LM_HEAD: draft_lm_head_refused,
    GDN_PREFILL: prefill_refused,
    GDN_DECODE: decode_refused,
}

_DOUBTED_BY: Mapping[str, Rule] = {
    CACHE_DTYPE: cache_doubted,
    STATE_DTYPE: state_doubted,
    GDN_PREFILL: prefill_doubted,
}

_SAME_BY: Mapping[str, Rule] = {GDN_PREFILL: prefill_same, GDN_DECODE: decode_same}

"""What a GPU never serves of a space, by its compute capability and the model's shape. Pure.

Only what was read in an engine's source stands here; whatever else a GPU lacks, its engine says (`check`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from configs.models import ModelProfile
from experiments.space.configuration import KnobValue
from experiments.space.space import Space

LINEAR_BACKEND = "serving.linear_backend"

MACHETE_CAPABILITY = "9.0"
"""Machete's kernels are built for Hopper alone (vLLM's `MacheteLinearKernel`)."""

GDN_PREFILL = "serving.gdn_prefill_backend"

FLASHINFER_GDN_CAPABILITIES = ("9.0", "10.", "12.")
"""How the compute capabilities begin for which FlashInfer's kernels for prompts of GatedDeltaNet layers are
built (vLLM's `_resolve_gdn_prefill_backend` in 0.32). On others vLLM warns and runs Triton's."""

FLASHINFER_GDN_HEAD = 128
"""The only width of a key's head that they serve above 9.0."""

MARLIN_INPUTS, MARLIN_OUTPUTS = 128, 64
"""What a projection's inputs and outputs must be multiples of for Marlin (vLLM's `MarlinLinearKernel`)."""


EXLLAMA_ACTIVATIONS = "float16"
"""The only type of activations that vLLM's `ExllamaLinearKernel` multiplies."""

KERNEL_PACKAGES: Mapping[str, str] = {"conch": "conch-triton-kernels"}
"""Kernels that are a package of their own beside vLLM (vLLM's `ConchLinearKernel`)."""


KERNEL_GROUPS: Mapping[str, tuple[int, ...]] = {"machete": (64, 128), "conch": (128,)}
"""Sizes of groups that a kernel multiplies, where not every one does (vLLM's `MacheteLinearKernel` and
`ConchLinearKernel`; seen to refuse groups of 32 in 0.26)."""

ASYMMETRIC_BITS: Mapping[str, tuple[int, ...]] = {"exllama": (), "marlin": (4,)}
"""Bits of weights with zero points that a kernel multiplies, where it does not multiply them in all that it
does without (vLLM's `ExllamaLinearKernel` and `MarlinLinearKernel`)."""

KERNEL_BITS: Mapping[str, tuple[int, ...]] = {"triton": (4,)}
"""Bits that a kernel multiplies, where they are not 4 and 8 (vLLM's `TritonW4A16LinearKernel`)."""

CACHE_DTYPE, WEIGHT_DTYPE = "serving.kv_cache_dtype", "serving.weight_dtype"
"""8-bit keys and values of the kind e5m2 don't go with 8-bit weights (vLLM's attention refuses the pair; seen
in 0.26)."""

GROUP_SIZE, SYMMETRIC = "quantization.group_size", "quantization.symmetric"
BITS = ("quantization.bits", "quantization.out_proj_bits")


def kernel_and_format_refused(configuration: Mapping[str, KnobValue]) -> str | None:
    """Why a kernel never multiplies weights or activations of the configuration's formats, in whatever it
    multiplies them; None where nothing is known against it. vLLM takes no other one for a kernel that is
    named."""
    kernel = str(configuration.get(LINEAR_BACKEND, "auto"))
    dtype, size = configuration.get("serving.dtype"), configuration.get(GROUP_SIZE)
    if kernel == "exllama" and dtype not in (None, EXLLAMA_ACTIVATIONS):
        return f"Exllama multiplies {EXLLAMA_ACTIVATIONS} activations alone, and serving.dtype is {dtype}."
    cache, weights = configuration.get(CACHE_DTYPE), configuration.get(WEIGHT_DTYPE)
    if (cache, weights) == ("fp8_e5m2", "fp8"):
        return f"vLLM keeps no keys and values as fp8_e5m2 beside {WEIGHT_DTYPE}=fp8."
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


def _any(values: tuple[int, ...]) -> str:
    return " or ".join(map(str, values))


def not_served_by(
    space: Space, profile: ModelProfile, compute_capability: str | None
) -> dict[tuple[str, KnobValue], str]:
    """Why values of this space can't be served, by knob and value; `compute_capability` None: not known."""
    found: dict[tuple[str, KnobValue], str] = {}
    for knob in space.knobs:
        refused = _REFUSED_BY.get(knob.name)
        if refused is None:
            continue
        for value in knob.values:
            why = refused(value, profile, compute_capability)
            if why is not None:
                found[(knob.name, value)] = why
    return found


def kernel_refused(backend: KnobValue, profile: ModelProfile, compute_capability: str | None) -> str | None:
    """Why a value of `serving.linear_backend` can't serve such a model on such a GPU; None where nothing is
    known against it."""
    rule = _RULES.get(str(backend))
    return None if rule is None else rule(profile, compute_capability)


def prefill_refused(backend: KnobValue, profile: ModelProfile, compute_capability: str | None) -> str | None:
    """Why a value of `serving.gdn_prefill_backend` would not run on such a GPU, which vLLM only warns of;
    None where nothing is known against it."""
    if backend != "flashinfer" or compute_capability is None:
        return None
    instead = "vLLM would run Triton's instead."
    if not compute_capability.startswith(FLASHINFER_GDN_CAPABILITIES):
        built = "9.0, 10.x and 12.x"
        return (
            f"FlashInfer's kernels for prompts are built for compute capability {built}, and this GPU has "
            f"{compute_capability}: {instead}"
        )
    if compute_capability != "9.0" and profile.gdn_k_head_dim != FLASHINFER_GDN_HEAD:
        return (
            f"FlashInfer's kernels for prompts serve heads of {FLASHINFER_GDN_HEAD} alone on compute "
            f"capability {compute_capability}, and these have {profile.gdn_k_head_dim}: {instead}"
        )
    return None


def _machete(profile: ModelProfile, capability: str | None) -> str | None:
    if capability is None or capability == MACHETE_CAPABILITY:
        return None
    return f"Machete is built for compute capability {MACHETE_CAPABILITY}, and this GPU has {capability}."


def _marlin(profile: ModelProfile, capability: str | None) -> str | None:
    for name, inputs, outputs in _projections(profile):
        if inputs % MARLIN_INPUTS:
            return f"Marlin wants inputs in multiples of {MARLIN_INPUTS}, and {name} has {inputs}."
        if outputs % MARLIN_OUTPUTS:
            return f"Marlin wants outputs in multiples of {MARLIN_OUTPUTS}, and {name} has {outputs}."
    return None


def _projections(profile: ModelProfile) -> Iterator[tuple[str, int, int]]:
    """Each kind of projection with its inputs and outputs."""
    hidden, kinds = profile.hidden, set(profile.layer_types)
    yield "mlp.gate_proj", hidden, profile.intermediate
    yield "mlp.down_proj", profile.intermediate, hidden
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


_RULES: Mapping[str, Callable[[ModelProfile, str | None], str | None]] = {
    "machete": _machete,
    "marlin": _marlin,
}

_REFUSED_BY: Mapping[str, Callable[[KnobValue, ModelProfile, str | None], str | None]] = {
    LINEAR_BACKEND: kernel_refused,
    GDN_PREFILL: prefill_refused,
}

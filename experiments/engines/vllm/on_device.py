"""Which values of its knobs vLLM takes on a kind of device: what its own sources list, and what was read of
them, or seen, for processors. Pure.

A value that vLLM replaces by its own choice, or knows no kernel for, is not taken there: what ran would not
be what was asked for. Nothing here says which of the values that are taken is the better one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from configs.targets import kind_of
from experiments.engines.vllm.environment import version_number, written
from experiments.space.configuration import KnobValue
from experiments.space.space import Space

CPU, CUDA = "cpu", "cuda"
"""Kinds of device, as vLLM's sources call its platforms, in lower case."""

LINEAR_BACKEND = "serving.linear_backend"

GDN = "linear_attention"
"""What a GatedDeltaNet layer is called among the kinds of a model's layers; a model with one is a hybrid."""

STATE_ARGUMENT = "mamba_ssm_cache_dtype"
"""vLLM's argument for the type of a GatedDeltaNet layer's state."""

_READ = "read in vLLM 0.26"
"""The version in whose sources the following was read; later ones were looked at in part and say the same."""

ON_PROCESSORS: Mapping[str, tuple[tuple[str, ...], str]] = {
    # model_executor/kernels/linear: none of the kernels of PlatformEnum.CPU has a name of --linear-backend
    LINEAR_BACKEND: (
        ("auto",),
        f"On a processor no kernel for packed weights goes by a name that vLLM can be asked for ({_READ}).",
    ),
    # fused_moe/oracle: of a processor's backends none has a name of --moe-backend
    "serving.moe_backend": (
        ("auto",),
        "On a processor vLLM computes experts by kernels of its own, which go by no name that it can be "
        "asked for (read in vLLM 0.32 and 0.33).",
    ),
    # the same layer of 0.32 and 0.33: its own method too
    "serving.gdn_decode_kernel": (
        ("auto",),
        "On a processor vLLM verifies drafts in these layers by its own method, whatever is named (read in "
        "vLLM 0.33).",
    ),
    # model_executor/layers/mamba/gdn: the layer's own method for processors, whatever is named
    "serving.gdn_prefill_backend": (
        ("auto",),
        f"On a processor vLLM reads prompts in these layers by its own method, whatever is named ({_READ}).",
    ),
    # config/vllm.py: no mode is kept where the platform has no static graphs
    "serving.graph_mode": (
        ("auto", "eager", "none"),
        f"Steps are captured in CUDA graphs on a GPU alone; elsewhere vLLM leaves them out ({_READ}).",
    ),
    # config/vllm.py: no size is kept there either
    "serving.max_graph_tokens": (
        ("auto",),
        "Steps are captured in CUDA graphs on a GPU alone, of whatever size (read in vLLM 0.32).",
    ),
    # config/vllm.py of 0.33: the first runner, which is a processor's, refuses it
    "drafting.lm_head": (
        ("auto",),
        "On a processor vLLM drafts with the model's own output head alone (read in vLLM 0.33).",
    ),
    # platforms/cpu.py: it is set to False there
    "serving.async_scheduling": (
        ("auto", "off"),
        f"On a processor vLLM schedules no step while another runs, whatever is asked for ({_READ}).",
    ),
}
"""What vLLM takes of a knob on a processor, and why nothing else."""

STATES_IN_FLOAT32 = ((0, 26), (0, 27), (0, 28))
"""Versions whose GatedDeltaNet layers for processors take states in float32 alone. Without AMX they are given
the type of activations, where checkpoint and order name none, and die at the first request (seen of 0.27; the
others call the same kernel)."""

_ABORTS = "vLLM 0.{} for processors aborts in native code when it drafts by MTP for a hybrid model."

FAILS_FOR_HYBRIDS: Mapping[tuple[str, KnobValue], Mapping[tuple[int, int], str]] = {
    ("drafting.method", "mtp"): {(0, minor): _ABORTS.format(minor) for minor in (29, 30, 31, 32)},
    # loads, and at its first request: RuntimeError: chunk_gated_delta_rule_cpu: initial_state dtype mismatch;
    # on a processor with AMX they are in float32 whatever is asked for (read in platforms/cpu.py)
    ("serving.gdn_state_dtype", "bfloat16"): {
        number: f"vLLM {written(number)} for processors keeps GatedDeltaNet states in float32 alone."
        for number in STATES_IN_FLOAT32
    },
    # loads, and at its first request: AssertionError: CPU GDN attention requires BF16
    ("serving.dtype", "float16"): {
        (0, minor): f"vLLM 0.{minor} for processors reads GatedDeltaNet layers in bfloat16 alone."
        for minor in (26, 27, 29, 30, 31, 32)
    },
}
"""What a version of vLLM was seen to fail at on a processor for a model with GatedDeltaNet layers, and how,
by knob and value, then by version; of versions that are not here nothing is known."""

UNSURE_ON_PROCESSORS: Mapping[tuple[str, KnobValue], str] = {
    ("serving.dtype", "float16"): (
        "Every vLLM for processors that was tried reads GatedDeltaNet layers in bfloat16 alone; others, and "
        "models without such layers, were not tried."
    ),
    ("serving.weight_dtype", "fp8"): (
        "Whether vLLM rounds weights to 8-bit floats on a processor was not tried; its load tells."
    ),
    ("serving.kv_cache_dtype", "fp8_e4m3"): (
        f"vLLM's attention for processors names it ({_READ}), and it was not tried; its load tells."
    ),
    ("serving.kv_cache_dtype", "fp8_e5m2"): (
        f"vLLM's attention for processors names it ({_READ}), and it was not tried; its load tells."
    ),
    ("serving.gdn_state_dtype", "bfloat16"): (
        "vLLM for processors keeps states in float32 alone to 0.28, and in bfloat16 from 0.29 on, which was "
        "tried on a processor without AMX alone."
    ),
    ("drafting.method", "mtp"): (
        "vLLM 0.29 to 0.32 for processors aborted where they drafted by MTP for a hybrid; others and "
        "other models were not tried."
    ),
}
"""Values of which it is not known whether vLLM takes them on a processor, and why; of a version and model
that one was seen to fail with, `FAILS_FOR_HYBRIDS` goes before."""


def why_not_taken(
    knob: str,
    value: KnobValue,
    device: str,
    version: str | None,
    listed: Mapping[str, tuple[str, ...]],
    layer_types: Collection[str],
) -> str | None:
    """Why vLLM does not take a value on a device, in a sentence; None where it does, and where nothing is
    known against it.

    `listed` has, by kind of device, the names under which the vLLM of this `version` has kernels for packed
    weights there, as far as its sources could be read; empty where there is none. `layer_types` are the kinds
    of the model's layers.
    """
    kind = kind_of(device)
    if knob == LINEAR_BACKEND and kind in listed:
        if value in listed[kind]:
            return None
        where = "a processor" if kind == CPU else "a GPU"
        return (
            f"vLLM {version} has no kernel for packed weights on {where} that goes by {knob}={value}; there "
            f"it has {', '.join(listed[kind])}."
        )
    if kind != CPU:
        return None
    if knob in ON_PROCESSORS:
        taken, why = ON_PROCESSORS[knob]
        return None if value in taken else why
    number = None if version is None else version_number(version)
    if number is None or GDN not in layer_types:
        return None
    return FAILS_FOR_HYBRIDS.get((knob, value), {}).get(number)


def asked_on(device: str, number: tuple[int, int], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a version of vLLM has to be asked for on a device beside an order's arguments, so that it serves
    where its own choice would not."""
    if kind_of(device) != CPU or number not in STATES_IN_FLOAT32 or STATE_ARGUMENT in arguments:
        return {}
    return {STATE_ARGUMENT: "float32"}


def not_taken(
    space: Space,
    device: str,
    version: str | None,
    listed: Mapping[str, tuple[str, ...]],
    layer_types: Collection[str],
) -> dict[tuple[str, KnobValue], str]:
    """Why values of a space are not taken on a device, by knob and value; as `why_not_taken`."""
    asked = ((knob.name, value) for knob in space.knobs for value in knob.values)
    return {
        (name, value): why
        for name, value in asked
        if (why := why_not_taken(name, value, device, version, listed, layer_types)) is not None
    }


def unsure(space: Space, device: str) -> dict[tuple[str, KnobValue], str]:
    """Of which values of a space it is not known whether they are taken on a device, and why."""
    if kind_of(device) != CPU:
        return {}
    has = {(knob.name, value) for knob in space.knobs for value in knob.values}
    return {each: why for each, why in UNSURE_ON_PROCESSORS.items() if each in has}

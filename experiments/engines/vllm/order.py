"""From a configuration to what vLLM is asked for. Pure but for `text_only`; imports no torch and no vLLM.

A value `auto` leaves the choice to vLLM; what it chose is read from the running engine (`worker.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.engines.messages import data_of
from experiments.engines.port import Infeasible
from experiments.engines.reference.drafting.order import DraftingOrder, drafter_folder, drafting_order
from experiments.space.configuration import Configuration, KnobValue

AUTO, ON, OFF = "auto", "on", "off"

EAGER = "eager"
"""The graph mode without any compilation or graph."""

GRAPH_MODES = (AUTO, EAGER, "none", "piecewise", "full", "full_decode_only", "full_and_piecewise")
"""Values of `serving.graph_mode`; those after `eager` are vLLM's `cudagraph_mode`, in small letters."""

DTYPES = ("bfloat16", "float16", "float32")

IMPORTED = "imported"
"""The file among a driver's temporary ones that says that all is imported that can be before its order."""

STORED, FP8 = "stored", "fp8"
"""Values of `serving.weight_dtype`: weights as they are stored, or quantized by vLLM as it loads them."""

PACKED_WEIGHTS = "mixed_precision"
"""What vLLM calls packed integer weights beside activations of 16 bits, where it chooses kernels for these
(`choose_mp_linear_kernel`)."""

DRAFT_LM_HEAD = "drafting.lm_head"
"""The knob of the output head that an MTP head drafts with."""

DRAFT_LM_HEADS = (AUTO, FP8, "nvfp4")
"""Its values: those after `auto`, which is the model's own, are vLLM's `draft_lm_head_quantization`."""

DRAFT_TOKENS_MAX = 15
"""Most tokens that are drafted a step: those of a DFlash block of 16, as published drafters have (FACTS §4).
vLLM itself stops at 128 (`MAX_SPEC_LEN`, 0.32). Above 7 verification leaves a fused kernel for eight states
of a GatedDeltaNet layer (FACTS §2), and a sequence keeps a state more for each token."""

DUMMY_ACCEPTED_SHARE = 0.5
"""The share of drafts that is accepted where weights are made up. A step's time is what is told of drafting
then, and all of a step's drafts are computed and verified either way."""

DEFAULTS: Mapping[str, KnobValue] = {
    "serving.dtype": "bfloat16",
    "serving.max_model_len": 4096,
    "serving.max_sequences": 16,
    "serving.graph_mode": AUTO,
    "serving.max_graph_tokens": AUTO,
    "serving.linear_backend": AUTO,
    "serving.moe_backend": AUTO,
    "serving.kv_cache_dtype": AUTO,
    "serving.weight_dtype": STORED,
    "serving.gdn_state_dtype": AUTO,
    "serving.gdn_prefill_backend": AUTO,
    "serving.gdn_decode_kernel": AUTO,
    "serving.async_scheduling": AUTO,
    "serving.chunked_prefill": AUTO,
    "serving.max_batch_tokens": AUTO,
    "serving.prefix_caching": OFF,
}
"""What a configuration that lacks a knob gets; these are all the serving knobs."""

NUMBERS = (
    "serving.max_model_len",
    "serving.max_sequences",
    "serving.max_batch_tokens",
    "serving.max_graph_tokens",
)
"""Knobs that are whole numbers above 0, and where that is their default `auto`."""

SWITCHES = ("serving.async_scheduling", "serving.chunked_prefill", "serving.prefix_caching")
"""Knobs that are `auto`, `on` or `off`."""

VARIABLES: Mapping[str, str] = {"serving.gdn_decode_kernel": "VLLM_GDN_DECODE_KERNEL"}
"""Knobs that vLLM reads from an environment variable of the engine's process, and from which."""

GDN_DECODE_KERNELS = (AUTO, "cuda", "triton")
"""Values of `serving.gdn_decode_kernel`; those after `auto` are vLLM's own."""

SHARE_FREE_AT_START = 0.05
"""The share of a GPU's memory that must be free for vLLM to start. With a fixed size of the cache it is used
for nothing else; vLLM's own 0.92 would refuse a second launch beside the first."""

_DEVICE = re.compile(r"cpu|cuda(:\d+)?")


@dataclass(frozen=True)
class VllmOrder:
    """The first line to the driver: arguments of vLLM's `AsyncEngineArgs`, and what is drafted.

    `device` is `cpu` or `cuda:N`, which the driver's variables have chosen already; `kept` is a folder for
    checkpoints that had to be written anew (`wrapped_checkpoint.py`). With `dummy` there are no weights, and
    vLLM makes some up. `variables` are set before vLLM reads them: a driver may be begun before its order.
    """

    checkpoint: str
    device: str
    arguments: dict[str, Any]
    kept: str = ""
    drafting_method: str = "none"
    draft_tokens: int = 0
    dummy: bool = False
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def draft_passes(self) -> int:
        """How often a drafter runs in a step."""
        return draft_passes(self.drafting_method, self.draft_tokens)


def draft_passes(method: str, draft_tokens: int) -> int:
    """How often what drafts runs in a step: once for a block of DFlash's, else once for each token."""
    return min(1, draft_tokens) if method == "dflash" else draft_tokens


def order_data(order: VllmOrder) -> dict[str, Any]:
    """The order as a driver reads it: one that sets no variable names none."""
    told: dict[str, Any] = data_of(order)
    if not order.variables:
        del told["variables"]
    return told


def drafting_of(configuration: Configuration) -> DraftingOrder:
    """What is drafted, by the limit of this engine. Raises `Infeasible` as `drafting_order`."""
    asked = {knob: value for knob, value in configuration.items() if knob != DRAFT_LM_HEAD}
    return drafting_order(Configuration.of(asked), draft_tokens_max=DRAFT_TOKENS_MAX)


def draft_lm_head_of(configuration: Configuration) -> KnobValue:
    """Which output head drafts. Raises `Infeasible`, kind `illegal`, for a value that there is not, and for a
    copy beside another method than MTP."""
    value = configuration.get(DRAFT_LM_HEAD, AUTO)
    if value not in DRAFT_LM_HEADS:
        raise Infeasible("illegal", f"{DRAFT_LM_HEAD} is {value!r}; it may be {', '.join(DRAFT_LM_HEADS)}.")
    method = configuration.get("drafting.method", "none")
    if value != AUTO and method != "mtp":
        raise Infeasible(
            "illegal",
            f"{DRAFT_LM_HEAD} is {value}, with which an MTP head alone drafts, and drafting.method is "
            f"{method}.",
        )
    return value


def chosen_knobs(configuration: Configuration) -> dict[str, KnobValue]:
    """Every serving knob with its value.

    Raises:
        Infeasible: kind `unsupported` for a knob that this engine does not have, `illegal` for a value.
    """
    for knob in configuration:
        if knob.startswith("serving.") and knob not in DEFAULTS:
            raise Infeasible("unsupported", f"The engine vllm has no knob {knob}.")
    chosen = {knob: configuration.get(knob, default) for knob, default in DEFAULTS.items()}
    for knob in NUMBERS:
        value, default = chosen[knob], DEFAULTS[knob]
        if value != default and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            or_auto = " or auto" if default == AUTO else ""
            raise Infeasible("illegal", f"{knob} is {value!r}; it must be a whole number above 0{or_auto}.")
    for knob, values in (
        ("serving.dtype", DTYPES),
        ("serving.graph_mode", GRAPH_MODES),
        ("serving.weight_dtype", (STORED, FP8)),
        ("serving.gdn_decode_kernel", GDN_DECODE_KERNELS),
        *((switch, (AUTO, ON, OFF)) for switch in SWITCHES),
    ):
        if chosen[knob] not in values:
            raise Infeasible("illegal", f"{knob} is {chosen[knob]!r}; it may be {', '.join(values)}.")
    return chosen


def order_for(
    configuration: Configuration,
    checkpoint: str,
    device: str,
    cache_bytes: int,
    kept: str = "",
    *,
    dummy: bool = False,
) -> VllmOrder:
    """The order of a configuration; `cache_bytes` is the memory of KV cache and GDN states together, `kept`
    and `dummy` as in `VllmOrder`.

    Raises:
        Infeasible: kind `unsupported` or `illegal`, for what this engine does not understand.
    """
    if not _DEVICE.fullmatch(device):
        raise Infeasible("unsupported", f"The engine vllm knows no device {device!r}; give cpu or cuda:N.")
    chosen, drafting = chosen_knobs(configuration), drafting_of(configuration)
    lm_head = draft_lm_head_of(configuration)
    arguments: dict[str, Any] = {
        "model": checkpoint,
        "skip_tokenizer_init": True,  # token ids go in and out
        "dtype": chosen["serving.dtype"],
        "max_model_len": chosen["serving.max_model_len"],
        "max_num_seqs": chosen["serving.max_sequences"],
        "kv_cache_memory_bytes": cache_bytes,  # a fixed size: launches side by side would mistake each other
        "gpu_memory_utilization": SHARE_FREE_AT_START,
        "enforce_eager": chosen["serving.graph_mode"] == EAGER,
        **_switch_arguments(chosen),
    }
    if graphs := _graph_arguments(chosen):
        arguments["compilation_config"] = graphs
    for knob, argument in (
        ("serving.kv_cache_dtype", "kv_cache_dtype"),
        ("serving.gdn_state_dtype", "mamba_ssm_cache_dtype"),
        ("serving.gdn_prefill_backend", "gdn_prefill_backend"),
        ("serving.max_batch_tokens", "max_num_batched_tokens"),
        ("serving.moe_backend", "moe_backend"),
    ):
        if chosen[knob] != AUTO:
            arguments[argument] = chosen[knob]
    arguments |= _kernel_arguments(chosen["serving.linear_backend"], beside_a_copy=lm_head != AUTO)
    if chosen["serving.weight_dtype"] == FP8:
        arguments["quantization"] = FP8
    if dummy:
        arguments["load_format"] = "dummy"
    if drafting.active:
        arguments["speculative_config"] = speculative_config(
            drafting, lm_head, dummy=dummy, target=Path(checkpoint)
        )
    if device == "cpu":
        arguments["distributed_executor_backend"] = "uni"  # as on a GPU: the worker in the engine's process
    variables = {name: str(chosen[knob]) for knob, name in VARIABLES.items() if chosen[knob] != AUTO}
    drafted = (drafting.method, drafting.draft_tokens)
    return VllmOrder(checkpoint, device, arguments, kept, *drafted, dummy, variables)


def speculative_config(
    drafting: DraftingOrder,
    lm_head: KnobValue = AUTO,
    *,
    dummy: bool = False,
    target: Path | None = None,
) -> dict[str, Any]:
    """vLLM's `speculative_config` of an order that drafts for the checkpoint `target`, with this value of
    `drafting.lm_head`; with `dummy` a set share of drafts is accepted."""
    told: dict[str, Any] = {"method": drafting.method, "num_speculative_tokens": drafting.draft_tokens}
    if drafting.method in ("draft_model", "dflash"):
        told["model"] = str(drafter_folder(drafting, target))
    if drafting.method == "ngram":
        told |= {"prompt_lookup_min": 2, "prompt_lookup_max": drafting.ngram_tokens}
    if lm_head != AUTO:
        told["draft_lm_head_quantization"] = lm_head
    if dummy:
        told["rejection_sample_method"] = "synthetic"
        told["synthetic_acceptance_length"] = 1 + DUMMY_ACCEPTED_SHARE * drafting.draft_tokens
    return told


def _kernel_arguments(kernel: KnobValue, *, beside_a_copy: bool) -> dict[str, Any]:
    """What names the kernels of packed weights. `linear_backend` is of all quantized weights, so beside a
    copy of the output head, which is quantized otherwise, they are named for packed ones alone: vLLM 0.33,
    which alone makes such a copy, looks kernels up by what weights are quantized to (`_get_linear_backend`).
    """
    if kernel == AUTO:
        return {}
    if beside_a_copy:
        return {"kernel_config": {"linear_backend_per_quant": {PACKED_WEIGHTS: kernel}}}
    return {"linear_backend": kernel}


def _graph_arguments(chosen: Mapping[str, KnobValue]) -> dict[str, Any]:
    """vLLM's `compilation_config` of which steps are captured in CUDA graphs; empty where it chooses."""
    told: dict[str, Any] = {}
    if chosen["serving.graph_mode"] not in (AUTO, EAGER):
        told["cudagraph_mode"] = str(chosen["serving.graph_mode"]).upper()
    if chosen["serving.max_graph_tokens"] != AUTO:
        told["max_cudagraph_capture_size"] = chosen["serving.max_graph_tokens"]
    return told


def text_only(checkpoint: Path) -> dict[str, Any]:
    """What loads the text model alone out of a checkpoint with a vision tower, by its config.json."""
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    return {"language_model_only": True} if "vision_config" in config else {}


def _switch_arguments(chosen: Mapping[str, KnobValue]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for knob, argument in (
        ("serving.async_scheduling", "async_scheduling"),
        ("serving.chunked_prefill", "enable_chunked_prefill"),
        ("serving.prefix_caching", "enable_prefix_caching"),
    ):
        if chosen[knob] != AUTO:
            told[argument] = chosen[knob] == ON
    return told

"""Which knobs a failure of vLLM is about, where its own words name the part that failed. Pure.

Words blame a part, never a value: what is put down is whatever the failed configuration had there. Memory is
taken by everything that is loaded, so that a full one blames nothing.
"""

from __future__ import annotations

import re

from experiments.engines.port import Blames, Infeasible
from experiments.engines.vllm.order import AUTO
from experiments.space.configuration import Configuration
from experiments.space.gpu_rules import BITS, LINEAR_BACKEND
from experiments.space.moe_backend_rules import MOE_BACKEND

_GDN_PREFILL = "serving.gdn_prefill_backend"
_CACHE = "serving.kv_cache_dtype"

_PARTS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"GDN prefill|gdn_prefill_backend"), (_GDN_PREFILL,)),
    (re.compile(r"VLLM_GDN_DECODE_KERNEL"), ("serving.gdn_decode_kernel",)),
    (
        re.compile(
            r"kv[_ -]cache[_ -]dtype|\bcache_dtype|(?:fp8|int8|nvfp4|quantized)\S* kv[_ -]cache", re.I
        ),
        (_CACHE,),
    ),
    # flashinfer: types of queries and keys, which vLLM makes those of the cache
    (re.compile(r"does not match the (?:q|kv)_data_type"), (_CACHE,)),
    # FlashAttention 3: 8-bit queries, which are the cache's, and the type that the model computes in
    (re.compile(r"For FP8 input, output must have dtype"), (_CACHE, "serving.dtype")),
    (re.compile(r"with fp8 checkpoints"), ("serving.weight_dtype",)),
    (re.compile(r"draft[ _]lm_head[ _]quantization|lm_head copy", re.I), ("drafting.lm_head",)),
    (re.compile(r"mamba_ssm_cache_dtype"), ("serving.gdn_state_dtype",)),
    (re.compile(r"chunked[ _]prefill (?:is|must be|isn't|not)", re.I), ("serving.chunked_prefill",)),
    # the mode in which vLLM keeps states of a prompt's beginning, so that they can be had again
    (re.compile(r"mamba cache mode|prefix[ _-]caching", re.I), ("serving.prefix_caching",)),
    (re.compile(r"max_num_batched_tokens"), ("serving.max_batch_tokens",)),
    (re.compile(r"cudagraph_capture_size|cudagraph sizes"), ("serving.max_graph_tokens",)),
    (re.compile(r"async(?:hronous)? scheduling", re.I), ("serving.async_scheduling",)),
    (re.compile(r"CUDAGraphMode\.|cudagraph_mode"), ("serving.graph_mode",)),
    (re.compile(r"\bmax_model_len\b"), ("serving.max_model_len",)),
    (re.compile(r"speculative[ _](?:decoding|config)|num_speculative_tokens", re.I), ("drafting.method",)),
)
"""Words of an error, and the knobs of the part that they name."""

_NO_LINEAR_KERNEL = re.compile(r"cannot implement due to|find a kernel that can implement|linear[-_]backend")

_NO_EXPERTS_KERNEL = re.compile(r"moe_backend|MoE backend\b.* does not support|No \S+ MoE backend")
"""vLLM's words where a kernel of experts was named that does not suit, or none does."""

_FORMATS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"group[ _]size", re.I), ("quantization.group_size",)),
    (re.compile(r"(?:quant|weight) type", re.I), (*BITS, "quantization.symmetric")),
    (re.compile(r"zero[ -]point", re.I), ("quantization.symmetric",)),
    (re.compile(r"\bactivations\b", re.I), ("serving.dtype",)),
)
"""Why a kernel of quantized weights does not take them, and the knobs of what it does not take."""

_OF_EXPERTS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"WNA16 MoE"), ("quantization.bits", "quantization.group_size", "quantization.symmetric")),
    (re.compile(r"FP8 MoE"), ("serving.weight_dtype",)),
)
"""What vLLM calls experts of a format there, and the knobs of that format."""

_TYPE_BITS = re.compile(r"(?:quant|weight) type \(?(?:ScalarType\.)?u?int(\d+)", re.I)
"""Bits of the weights that a kernel does not take: vLLM's `uint8b128`, `uint4`."""

_LOOKED_AT = re.compile(r"(\w+?)(?:LinearKernel)? cannot implement due to")

_GDN_PREFILL_RUNS = re.compile(r"Using (\w+)\S* GDN prefill kernel \(requested=(\w+)")
"""vLLM's log tells which kernels it took for what was asked for: `Triton/FLA` for `triton`."""


def blamed_by(cause: str, log: str = "") -> Blames:
    """The knobs of the parts that the words of a cause name, in the order of their table; with the value that
    the log tells to run behind the one that was asked for. Empty where they name none."""
    named = [knob for words, knobs in _PARTS if words.search(cause) for knob in knobs]
    if _NO_LINEAR_KERNEL.search(cause):
        named.append(LINEAR_BACKEND)
        named += [knob for words, knobs in _FORMATS if words.search(cause) for knob in knobs]
    if _NO_EXPERTS_KERNEL.search(cause):
        named += [
            MOE_BACKEND,
            *(knob for words, knobs in _OF_EXPERTS if words.search(cause) for knob in knobs),
        ]
    return {knob: _behind(log) if knob == _GDN_PREFILL else None for knob in named}


def of_configuration(failure: Infeasible, configuration: Configuration) -> Infeasible:
    """The failure, put down to what the configuration has of it alone.

    Of the knobs of bits those that ask for the bits of the words: a layer in eight of them says nothing of
    one in four. Not the kernel that was asked for where vLLM looked at others alone, as 0.32 does where it
    has none of that name for a device.
    """
    blames = dict(failure.blames)
    told = {int(bits) for bits in _TYPE_BITS.findall(failure.cause)}
    asked = {knob for knob in BITS if configuration.get(knob) in told}
    if asked:
        blames = {knob: behind for knob, behind in blames.items() if knob not in BITS or knob in asked}
    backend = str(configuration.get(LINEAR_BACKEND, AUTO))
    looked_at = [kernel.lower() for kernel in _LOOKED_AT.findall(failure.cause)]
    asked_for = backend.replace("_", "")  # `flashinfer_cutlass` is a FlashInferCutlass...LinearKernel
    if backend != AUTO and looked_at and not any(asked_for in kernel for kernel in looked_at):
        blames.pop(LINEAR_BACKEND, None)
    return Infeasible(failure.kind, failure.cause, failure.missing_bytes, blames)


def _behind(log: str) -> str | None:
    told = _GDN_PREFILL_RUNS.findall(log)
    if not told:
        return None
    runs, asked = told[-1]
    return None if runs.lower() == asked.lower() else runs.lower()

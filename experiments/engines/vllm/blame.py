"""Which knobs a failure of vLLM is about, where its own words name the part that failed. Pure.

Words blame a part, never a value: what is put down is whatever the failed configuration had there. Memory is
taken by everything that is loaded, so that a full one blames nothing.
"""

from __future__ import annotations

import re

from experiments.engines.port import Blames

_GDN_PREFILL = "serving.gdn_prefill_backend"
_KERNEL = "serving.linear_backend"
_CACHE = "serving.kv_cache_dtype"

_PARTS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"GDN prefill|gdn_prefill_backend"), (_GDN_PREFILL,)),
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
    (re.compile(r"mamba_ssm_cache_dtype"), ("serving.gdn_state_dtype",)),
    (re.compile(r"chunked[ _]prefill (?:is|must be|isn't|not)", re.I), ("serving.chunked_prefill",)),
    # the mode in which vLLM keeps states of a prompt's beginning, so that they can be had again
    (re.compile(r"mamba cache mode|prefix[ _-]caching", re.I), ("serving.prefix_caching",)),
    (re.compile(r"async(?:hronous)? scheduling", re.I), ("serving.async_scheduling",)),
    (re.compile(r"CUDAGraphMode\.|cudagraph_mode"), ("serving.graph_mode",)),
    (re.compile(r"\bmax_model_len\b"), ("serving.max_model_len",)),
    (re.compile(r"speculative[ _](?:decoding|config)|num_speculative_tokens", re.I), ("drafting.method",)),
)
"""Words of an error, and the knobs of the part that they name."""

_NO_LINEAR_KERNEL = re.compile(r"cannot implement due to|find a kernel that can implement|linear[-_]backend")

_FORMATS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"group[ _]size", re.I), ("quantization.group_size",)),
    (re.compile(r"(?:quant|weight) type", re.I), ("quantization.bits", "quantization.symmetric")),
    (re.compile(r"zero[ -]point", re.I), ("quantization.symmetric",)),
    (re.compile(r"\bactivations\b", re.I), ("serving.dtype",)),
)
"""Why a kernel of quantized weights does not take them, and the knobs of what it does not take."""

_GDN_PREFILL_RUNS = re.compile(r"Using (\w+)\S* GDN prefill kernel \(requested=(\w+)")
"""vLLM's log tells which kernels it took for what was asked for: `Triton/FLA` for `triton`."""


def blamed_by(cause: str, log: str = "") -> Blames:
    """The knobs of the parts that the words of a cause name, in the order of their table; with the value that
    the log tells to run behind the one that was asked for. Empty where they name none."""
    named = [knob for words, knobs in _PARTS if words.search(cause) for knob in knobs]
    if _NO_LINEAR_KERNEL.search(cause):
        named.append(_KERNEL)
        named += [knob for words, knobs in _FORMATS if words.search(cause) for knob in knobs]
    return {knob: _behind(log) if knob == _GDN_PREFILL else None for knob in named}


def _behind(log: str) -> str | None:
    told = _GDN_PREFILL_RUNS.findall(log)
    if not told:
        return None
    runs, asked = told[-1]
    return None if runs.lower() == asked.lower() else runs.lower()

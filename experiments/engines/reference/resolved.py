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
from experiments.measurement.evidence import Json

FUSED_KERNEL_PACKAGES = {"gdn": "fla", "conv1d": "causal_conv1d"}
"""Packages whose kernels transformers takes, on a GPU, for the recurrence and the convolution."""


def resolved_configuration(decoder: Decoder) -> dict[str, Json]:
    """Dtypes, threads, compile mode and whether compiled code really ran, kernels, versions, layers."""
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
    """The mode, whether compiled code has run, and each compiled step by its capacity."""
    steps = decoder.compiled
    told: dict[str, Json] = {"mode": decoder.mode, "used": any(step.calls for step in steps.values())}
    if decoder.mode == "default":
        told |= graph_counters(len(steps))
    for capacity, step in sorted(steps.items()):
        told[f"capacity_{capacity}"] = {"calls": step.calls, **step.detail}
    return told


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

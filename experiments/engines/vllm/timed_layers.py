"""vLLM's own linear layers with made-up weights, outside any model. In vLLM's own Python.

A layer is built as a model builds it: from vLLM's class and its quantization config, within a vLLM config
that names the linear backend, so that vLLM's rules choose and prepare the kernel that would be served. All
that is vLLM's own interface stands here: read in vLLM 0.26 and 0.33, run with 0.32's build for CPUs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from experiments.engines.kernel_timings import Product

SCALES = (1e-3, 2e-3)
"""Range of made-up scales and 16-bit weights: no product of them leaves what 16 bits hold."""

NO_KERNEL = "Failed to find a kernel"
"""Begins what vLLM raises where none of the kernels that it may choose from does it."""


class Refused(Exception):
    """vLLM has no kernel for this layer under this backend; the message is its reason, in one line."""


class TimedLayers:
    """Builds layers in this process, which serves nothing else; one of them at most."""

    def __init__(self, device: str, dtype: str, folder: Path) -> None:
        """Begin vLLM's groups of one process; `folder` is for the file by which it finds itself."""
        from vllm.distributed.parallel_state import (
            ensure_model_parallel_initialized,
            init_distributed_environment,
        )

        self.device, self._dtype = torch.device(device), getattr(torch, dtype)
        self._configs: dict[str, Any] = {}
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        with self.under("auto"):  # what groups are begun by is read from the config at hand
            init_distributed_environment(
                world_size=1,
                rank=0,
                local_rank=0,
                distributed_init_method=f"file://{folder / f'found_by-{os.getpid()}'}",
                backend="gloo" if self.device.type == "cpu" else "nccl",
            )
            ensure_model_parallel_initialized(1, 1)

    @contextmanager
    def under(self, backend: str) -> Iterator[None]:
        """A vLLM config with this `--linear-backend`; its default type is that of activations meanwhile.

        Raises `Refused` for a backend that this vLLM does not know.
        """
        from vllm.config import KernelConfig, VllmConfig, set_current_vllm_config

        if backend not in self._configs:
            try:
                kernels: Any = KernelConfig(linear_backend=backend)
            except ValueError:  # pydantic's, which lists every other one
                raise Refused(f"This vLLM knows no linear backend {backend}.") from None
            self._configs[backend] = VllmConfig(kernel_config=kernels)
        before = torch.get_default_dtype()
        torch.set_default_dtype(self._dtype)
        try:
            with set_current_vllm_config(self._configs[backend]):
                yield
        finally:
            torch.set_default_dtype(before)

    def layer(self, product: Product, quantization: Mapping[str, Any] | None) -> torch.nn.Module:
        """One layer, ready to be called; `quantization` is a checkpoint's `quantization_config`, None for
        16 bits. Within `under`. Raises `Refused`."""
        from vllm.model_executor.layers.linear import ReplicatedLinear
        from vllm.model_executor.layers.quantization import get_quantization_config

        method = None
        if quantization is not None:
            kind = get_quantization_config(str(quantization["quant_method"]))
            method = kind.from_config(dict(quantization))
        try:
            with self.device:
                layer: torch.nn.Module = ReplicatedLinear(
                    product.inputs,
                    product.outputs,
                    bias=False,
                    params_dtype=self._dtype,
                    quant_config=method,
                    prefix=product.module,
                    return_bias=False,
                )
        except (ValueError, NotImplementedError) as reason:
            raise Refused(_reason(reason)) from None
        _make_up(layer, product)
        with self.device:
            layer.quant_method.process_weights_after_loading(layer)  # type: ignore[union-attr, operator]
        return layer.eval()

    def inputs(self, rows: int, product: Product) -> torch.Tensor:
        """Rows of input of a product."""
        return torch.randn(rows, product.inputs, dtype=self._dtype, device=self.device)


def kernel_of(layer: torch.nn.Module) -> str:
    """The class that multiplies a layer's weights: its kernel's, or the method's that has none."""
    method = layer.quant_method
    for holder in (getattr(layer, "scheme", None), method):
        kernel = getattr(holder, "kernel", None)
        if kernel is not None:
            return type(kernel).__name__
    return type(method).__name__


def weight_bytes(layer: torch.nn.Module, product: Product) -> int:
    """Bytes that a call of the layer reads of its weights, as they lie in memory; of a kernel for CPUs that
    packed them away, leaving empty ones, those that it was given."""
    held = sum(each.numel() * each.element_size() for each in layer.parameters())
    return held or product.inputs * product.outputs * torch.get_default_dtype().itemsize


@torch.no_grad()
def _make_up(layer: torch.nn.Module, product: Product) -> None:
    for name, parameter in layer.named_parameters():
        if name == "weight_shape":  # sizes, which a kernel may read
            parameter.copy_(torch.tensor([product.outputs, product.inputs]))
        elif parameter.is_floating_point():
            parameter.uniform_(*SCALES)
        else:
            limits = torch.iinfo(parameter.dtype)
            parameter.random_(limits.min, limits.max)


def _reason(error: Exception) -> str:
    """Of the kernels that vLLM looked at, why each does not; else what it said."""
    text = str(error)
    if NO_KERNEL in text and "Reasons:" in text:
        text = text.partition("Reasons:")[2]
    return " ".join(text.split())

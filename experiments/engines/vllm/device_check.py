"""What can be known of a GPU before vLLM loads: that it is there, which kernels it lacks, whether the least
fits. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from experiments.engines.port import Infeasible
from experiments.engines.reference.memory import LAUNCHES_AT_ONCE
from experiments.engines.reference.shape import read_profile
from experiments.engines.vllm.order import chosen_knobs
from experiments.shapes.folder import shape_in
from experiments.space.configuration import Configuration
from experiments.space.gpu_rules import KERNEL_PACKAGES, LINEAR_BACKEND, kernel_refused
from experiments.telemetry.identity import GB, DeviceIdentity, NoSuchDevice, identify


def check_device(
    configuration: Configuration,
    checkpoint: Path,
    device: str,
    cache_bytes: int,
    identified: Callable[[str], DeviceIdentity] = identify,
    launches: int = LAUNCHES_AT_ONCE,
    has_package: Callable[[str], bool] = lambda _: True,
) -> None:
    """Look at `cuda:N` and its free memory; `cache_bytes` is the cache that a launch asks for.

    `has_package` tells whether vLLM's Python has a package. The memory is a lower bound: the weights and the
    caches of `launches` side by side, nothing else. What vLLM needs beside is known when it loads.

    Raises:
        Infeasible: kind `unsupported` for a device that is not there or a kernel that never serves there,
            `out_of_memory` with the figures where not even the least fits.
    """
    try:
        gpu = identified(device)
    except NoSuchDevice as reason:
        raise Infeasible("unsupported", str(reason)) from None
    backend = chosen_knobs(configuration)[LINEAR_BACKEND]
    why = kernel_refused(backend, read_profile(checkpoint), gpu.compute_capability)
    if why is not None:
        raise Infeasible("unsupported", f"{LINEAR_BACKEND}={backend} can't serve this on {gpu.name}: {why}")
    package = KERNEL_PACKAGES.get(str(backend))
    if package is not None and not has_package(package):
        raise Infeasible(
            "unsupported",
            f"{LINEAR_BACKEND}={backend} is in a package of its own, which vLLM's Python lacks: pip install "
            f"{package} there.",
        )
    shape = shape_in(checkpoint)
    files = checkpoint.glob("*.safetensors")
    weights = sum(path.stat().st_size for path in files) if shape is None else shape.weight_bytes
    needed = launches * (weights + cache_bytes)
    if gpu.free_bytes is not None and needed > gpu.free_bytes:
        raise Infeasible(
            "out_of_memory",
            f"{_told(launches)} {needed / GB:.1f} GB at least on {device} "
            f"(weights {weights / GB:.1f} GB and cache {cache_bytes / GB:.1f} GB each) and "
            f"{gpu.free_bytes / GB:.1f} GB are free, {(needed - gpu.free_bytes) / GB:.1f} GB too few; take "
            "quantized weights, a smaller serving.max_model_len or fewer serving.max_sequences, or free "
            "the GPU of other processes.",
        )


def _told(launches: int) -> str:
    return "A launch needs" if launches == 1 else f"The {launches} launches of a test need"

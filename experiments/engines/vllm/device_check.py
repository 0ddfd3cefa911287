"""What can be known of a GPU before vLLM loads: that it is there, which kernels it lacks, whether a launch
fits. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from experiments.engines.port import Infeasible
from experiments.engines.reference.memory import LAUNCHES_AT_ONCE
from experiments.engines.reference.shape import read_profile
from experiments.engines.vllm.needed_memory import GB, LEANER, doubt, packing_at, parts_needed, refusal
from experiments.engines.vllm.order import chosen_knobs
from experiments.engines.vllm.would_fit import Place, would_fit
from experiments.space.configuration import Configuration
from experiments.space.experts_rules import ExpertSizes, packed_experts_refused
from experiments.space.gpu import SERVED_FROM, VLLM, Gpu
from experiments.space.gpu_rules import KERNEL_PACKAGES, LINEAR_BACKEND, refused_on
from experiments.telemetry.identity import DeviceIdentity, NoSuchDevice, identify


def check_device(
    configuration: Configuration,
    checkpoint: Path,
    device: str,
    context_tokens: int = 1,
    identified: Callable[[str], DeviceIdentity] = identify,
    launches: int = LAUNCHES_AT_ONCE,
    has_package: Callable[[str], bool] = lambda _: True,
    concurrency: int = 1,
    version: tuple[int, int] | None = None,
    scored_tokens: int = 0,
) -> str | None:
    """Look at `cuda:N` and its free memory; returns what to say where `launches` side by side fit by what is
    certain and not with what is guessed beside it.

    `has_package` tells whether vLLM's Python has a package; `concurrency` are the requests at once that what
    would fit is to serve, and `scored_tokens` the tokens of a document that is scored; `version` is vLLM's,
    None where it is not known.

    Raises:
        Infeasible: kind `unsupported` for a device that is not there or what never serves there,
            `out_of_memory` with the figures, and what would fit, where not even what is certain fits.
    """
    try:
        gpu = identified(device)
    except NoSuchDevice as reason:
        raise Infeasible("unsupported", str(reason)) from None
    chosen, profile = chosen_knobs(configuration), read_profile(checkpoint)
    backend = chosen[LINEAR_BACKEND]
    served = Gpu(gpu.compute_capability, VLLM, version)
    if served.below(*SERVED_FROM):
        least = ".".join(map(str, SERVED_FROM))
        raise Infeasible(
            "unsupported",
            f"vLLM serves on GPUs from compute capability {least} on, and {gpu.name} has "
            f"{gpu.compute_capability}: take a newer one.",
        )
    refused_there = refused_on(chosen, profile, served)
    if refused_there is not None:
        knob, value, why = refused_there
        raise Infeasible("unsupported", f"{knob}={value} can't serve this on {gpu.name}: {why}")
    packing = None if (sizes := ExpertSizes.of(profile)) is None else packing_at(checkpoint)
    if (of_experts := packed_experts_refused(chosen, served, sizes, packing)) is not None:
        raise Infeasible("unsupported", of_experts)
    package = KERNEL_PACKAGES.get(str(backend))
    if package is not None and not has_package(package):
        raise Infeasible(
            "unsupported",
            f"{LINEAR_BACKEND}={backend} is in a package of its own, which vLLM's Python lacks: pip install "
            f"{package} there.",
        )
    if gpu.free_bytes is None:
        return None
    parts = parts_needed(configuration, checkpoint, context_tokens, gpu.memory_bytes, scored_tokens)
    refused = refusal(parts, launches, gpu.free_bytes, device)
    if refused is not None:
        place = Place(checkpoint, gpu.memory_bytes, context_tokens, concurrency, served, scored_tokens)
        told = [refused, would_fit(configuration, place, gpu.free_bytes, launches) or LEANER]
        if refusal(parts, launches, gpu.memory_bytes, device) is None:
            held = (gpu.memory_bytes - gpu.free_bytes) / GB
            told.append(f"Or free the GPU of what else holds {held:.1f} GB of it.")
        raise Infeasible("out_of_memory", " ".join(told))
    return doubt(parts, launches, gpu.free_bytes, device)


def gpu_of(device: str) -> DeviceIdentity | None:
    """A GPU as it is now; None for a processor, and where the driver does not tell."""
    if device == "cpu":
        return None
    try:
        return identify(device)
    except NoSuchDevice:
        return None


def memory_of(device: str) -> int | None:
    """Bytes of a GPU's memory; None for a processor, and where the driver does not tell."""
    gpu = gpu_of(device)
    return None if gpu is None else gpu.memory_bytes

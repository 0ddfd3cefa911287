"""What `autoinfer doctor` tells of GPUs and of the engine that serves on them. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cli.health.check_result import Check, Verdict
from experiments.telemetry.identity import BUSY_SHARE, GB, DeviceIdentity, NoSuchDevice, identify

if TYPE_CHECKING:
    from configs.settings import Settings
    from experiments.engines.vllm.environment import VllmEnvironment

GPUS_MAX = 64
"""More GPUs than a host has."""


def visible_gpus(
    identified: Callable[[str], DeviceIdentity] = identify,
) -> tuple[dict[str, DeviceIdentity], str]:
    """The GPUs that a launch could be given, by name (`cuda:0`), and why the first that can't be can't.

    A GPU that is divided, or does not say what it is, ends the list only where the driver shows no more.
    """
    found: dict[str, DeviceIdentity] = {}
    reason = ""
    for number in range(GPUS_MAX):
        device = f"cuda:{number}"
        try:
            found[device] = identified(device)
        except NoSuchDevice as why:
            reason = reason or str(why)
            if "divided" not in str(why):
                break
    return found, reason


def check_gpus(identified: Callable[[str], DeviceIdentity] = identify) -> Check:
    """Look for GPUs that campaigns can be run on, and whether they are free."""
    found, reason = visible_gpus(identified)
    if not found:
        return Check("gpu", Verdict.OK, f"none for campaigns: {reason}")
    told = "; ".join(
        ", ".join(
            filter(
                None,
                (
                    f"{device} {gpu.name}",
                    f"{gpu.memory_bytes / GB:.0f} GB",
                    f"compute capability {gpu.compute_capability}" if gpu.compute_capability else "",
                    f"driver {gpu.driver}" if gpu.driver else "",
                ),
            )
        )
        for device, gpu in found.items()
    )
    busy = [
        f"{(gpu.memory_bytes - gpu.free_bytes) / GB:.1f} GB of {device}"
        for device, gpu in found.items()
        if gpu.free_bytes is not None and gpu.free_bytes < (1 - BUSY_SHARE) * gpu.memory_bytes
    ]
    if busy:
        return Check(
            "gpu",
            Verdict.WARN,
            f"{told}; {' and '.join(busy)} are in use",
            "End what uses it before a campaign: times on a shared GPU mean nothing (autoinfer devices)."
            " What a desktop, Windows or WSL holds without a name may stay where the setting "
            "unnamed_gpu_memory allows it.",
        )
    return Check("gpu", Verdict.OK, told)


def check_vllm(settings: Settings, identified: Callable[[str], DeviceIdentity] = identify) -> Check:
    """Look for the vLLM that would serve here; without one and with a GPU, say how to get it."""
    from experiments.engines.port import Infeasible
    from experiments.engines.vllm.environment import untried

    there = bool(visible_gpus(identified)[0])
    advice = "To run campaigns on a GPU: autoinfer engines install vllm." if there else ""
    missing = Verdict.WARN if there else Verdict.OK
    try:
        found = installed_vllm(settings)
    except Infeasible as reason:
        return Check(
            "vllm", Verdict.WARN, reason.cause, advice or "To serve with it: autoinfer engines install vllm."
        )
    if found is None:
        return Check(
            "vllm", missing, "not installed" if there else "not installed; it serves on GPUs", advice
        )
    told = f"{found.version} for {'CPUs' if found.for_cpu else 'GPUs'} at {found.python}"
    if there and found.for_cpu:
        return Check("vllm", Verdict.WARN, told, advice)
    if (newer := untried(found)) is not None:
        return Check(
            "vllm",
            Verdict.WARN,
            newer,
            "One that this engine was written for is installed by: autoinfer engines install vllm",
        )
    return Check("vllm", Verdict.OK, told)


def installed_vllm(settings: Settings) -> VllmEnvironment | None:
    """The vLLM that a job of these settings would find; raises `Infeasible` where its Python is missing,
    its version is none that autoinfer serves with, or it can't be imported."""
    from cli.executors.executor import vllm_python_of
    from experiments.engines.vllm.environment import PYTHON_VARIABLE, installed, vllm_python

    named = vllm_python_of(settings)
    python = vllm_python({} if named is None else {PYTHON_VARIABLE: str(named)})
    found = None if python is None else installed(python)
    if found is not None:
        found.check_version()
        found.check_packages()
    return found

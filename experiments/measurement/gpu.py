"""What the NVIDIA driver says of a GPU, through NVML where its Python package is installed.

The package is optional (`nvidia-ml-py`, which is what stands for `pynvml` today). Whatever the driver does
not answer is None: a field that a GPU lacks is no error.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from experiments.measurement.evidence import Json

_MW_PER_W = 1000
"""NVML states power in milliwatts."""


def gpu_facts(device: str) -> dict[str, Json] | None:
    """Name, memory, limits and driver of `cuda:N`; None for a CPU and where NVML is not to be had."""
    found = _handle(device)
    if found is None:
        return None
    nvml, handle = found
    return {
        "name": _text(_ask(lambda: nvml.nvmlDeviceGetName(handle))),
        "driver": _text(_ask(nvml.nvmlSystemGetDriverVersion)),
        "cuda_driver": _ask(nvml.nvmlSystemGetCudaDriverVersion),
        "memory_bytes": _ask(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total)),
        "power_limit_w": _ask(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / _MW_PER_W),
        "max_sm_mhz": _ask(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "max_memory_mhz": _ask(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM)),
    }


def gpu_moment(device: str) -> dict[str, Json] | None:
    """Clocks, power, temperature, use and memory of `cuda:N` now; None as for `gpu_facts`."""
    found = _handle(device)
    if found is None:
        return None
    nvml, handle = found
    return {
        "sm_mhz": _ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "memory_mhz": _ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
        "power_w": _ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / _MW_PER_W),
        "temperature_c": _ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        "used_bytes": _ask(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used)),
        "use_percent": _ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        "throttle_reasons": _ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
    }


@cache
def _nvml() -> ModuleType | None:
    """The driver's library, initialised once a process; None where package or driver is missing."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # the package is missing, or raises its own error when the driver is
        return None
    return nvml


def _handle(device: str) -> tuple[Any, Any] | None:
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return None
    nvml = _nvml()
    if nvml is None:
        return None
    handle = _ask(lambda: nvml.nvmlDeviceGetHandleByIndex(int(number or 0)))
    return None if handle is None else (nvml, handle)


def _ask(question: Callable[[], Any]) -> Any:
    """What the driver answers; None for whatever it does not support or permit."""
    try:
        return question()
    except Exception:  # NVML raises its own error for every state of the device
        return None


def _text(value: Any) -> str | None:
    """Text that older packages give as bytes."""
    return value.decode() if isinstance(value, bytes) else value

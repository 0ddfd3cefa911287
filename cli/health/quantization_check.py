"""Whether this machine can quantize, as `autoinfer doctor` tells it. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cli.health.check_result import Check, Verdict
from cli.health.gpu_checks import visible_gpus
from experiments.telemetry.identity import DeviceIdentity, identify
from experiments.torch_build import torch_build

if TYPE_CHECKING:
    from configs.settings import Settings


def check_quantization(settings: Settings, identified: Callable[[str], DeviceIdentity] = identify) -> Check:
    """Look for the Python that has llmcompressor, as a job of these settings would find it, and whether its
    PyTorch computes on the GPU where there is one."""
    from cli.executors.executor import quantize_python_of
    from experiments.engines.port import Infeasible
    from experiments.stages.quantize.environment import (
        HOW_TO_INSTALL,
        INSTALL_FOR_GPUS,
        PYTHON_VARIABLE,
        quantize_python,
        tool_versions,
    )

    named = quantize_python_of(settings)
    advice = f"To quantize, {HOW_TO_INSTALL}; or go on without that lever."
    try:
        python = quantize_python({} if named is None else {PYTHON_VARIABLE: str(named)})
    except Infeasible:
        return Check("quantization", Verdict.WARN, f"infeasible: there is no Python at {named}", advice)
    if python is None:
        return Check("quantization", Verdict.WARN, "infeasible: llmcompressor is not installed", advice)
    found = tool_versions(python)["llmcompressor"]
    if found is None:
        return Check("quantization", Verdict.WARN, f"infeasible: {python} has no llmcompressor", advice)
    told, gpus = f"llmcompressor {found} of {python}", visible_gpus(identified)[0]
    build = torch_build(python) if gpus else None
    why = build and build.why_not_on_gpu(next(iter(gpus.values())).cuda_driver)
    if build is None or why is None:
        return Check("quantization", Verdict.OK, told)
    advice = f"To quantize on the GPU, {build.way_out(INSTALL_FOR_GPUS)}."
    return Check("quantization", Verdict.WARN, f"{told}; {why}", advice)

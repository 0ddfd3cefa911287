"""Whether this machine can quantize, as `autoinfer doctor` tells it. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.health.check_result import Check, Verdict

if TYPE_CHECKING:
    from configs.settings import Settings


def check_quantization(settings: Settings) -> Check:
    """Look for the Python that has llmcompressor, as a job of these settings would find it."""
    from cli.executors.executor import quantize_python_of
    from experiments.engines.port import Infeasible
    from experiments.stages.quantize.environment import (
        HOW_TO_INSTALL,
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
    return Check("quantization", Verdict.OK, f"llmcompressor {found} of {python}")

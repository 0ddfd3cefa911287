"""The vLLM whose own functions and types tests ask, where `AUTOINFER_VLLM_PYTHON` names its Python."""

from experiments.engines.port import Infeasible
from experiments.engines.vllm.environment import VllmEnvironment, installed, vllm_python


def vllm_here() -> tuple[VllmEnvironment | None, str]:
    """The one that is named, None where none is or it can't be imported, and why it is None."""
    try:
        python = vllm_python()
        found = None if python is None else installed(python)
        if found is None:
            return None, "AUTOINFER_VLLM_PYTHON names no Python with vLLM"
        found.check_packages()
    except Infeasible as reason:
        return None, reason.cause
    return found, ""

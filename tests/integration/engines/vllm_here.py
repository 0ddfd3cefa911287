"""The vLLM whose own functions and types tests ask, where `AUTOINFER_VLLM_PYTHON` names its Python."""

from experiments.engines.port import Infeasible
from experiments.engines.vllm.environment import VllmEnvironment, installed, vllm_python


def vllm_here() -> VllmEnvironment | None:
    """The one that is named; None where none is."""
    try:
        python = vllm_python()
    except Infeasible:
        return None
    return None if python is None else installed(python)

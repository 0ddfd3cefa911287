"""Makes an environment with vLLM."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from configs.errors import AutoinferError, DiskFull, UsageError
from configs.quantities import format_bytes
from experiments.engines.vllm import text_only_torchvision
from experiments.engines.vllm.beside_torch import SOUND_AND_VIDEO, TEXT_ONLY, why_not_imported
from experiments.engines.vllm.environment import (
    CPU_PACKAGE,
    CUDA_PACKAGE,
    NEWEST_TRIED,
    OLDEST,
    VllmEnvironment,
    installed,
    version_number,
    written,
)
from experiments.environment_making import LOG_NAME, Run, make_environment, run_logged
from experiments.other_python import package_versions
from experiments.torch_build import torch_build

ENVIRONMENT_BYTES = 9_400_000_000
"""What the environment of vLLM 0.33 with torch 2.14 for GPUs takes on the disk, as it was measured."""

_NEEDED = "from vllm.engine.arg_utils import AsyncEngineArgs"
"""The import that a launch begins with."""

_SITE_PACKAGES = "import sysconfig; print(sysconfig.get_paths()['purelib'])"


def requirement(version: str | None, *, for_cpu: bool) -> str:
    """What pip is asked for: a version, or the newest that this engine was written for.

    Raises `UsageError` for a version that is none, or older than what is served with: it would take minutes
    and gigabytes to find out.
    """
    package = CPU_PACKAGE if for_cpu else CUDA_PACKAGE
    if version is not None:
        number = version_number(version)
        hint = f"Give one from {written(OLDEST)} to {written(NEWEST_TRIED)}, or none for the newest of them."
        if number is None:
            raise UsageError(f"{version!r} is no version of vLLM.", hint)
        if number < OLDEST:
            oldest = f"{written(OLDEST)}, the oldest that autoinfer serves with"
            raise UsageError(f"vLLM {version} is older than {oldest}.", hint)
        return f"{package}=={version}"
    above = (NEWEST_TRIED[0], NEWEST_TRIED[1] + 1)
    return f"{package}>={OLDEST[0]}.{OLDEST[1]},<{above[0]}.{above[1]}"


def free_bytes_at(folder: Path) -> int:
    """Bytes that are free on the disk of a folder."""
    return shutil.disk_usage(folder).free


def install(
    folder: Path,
    version: str | None,
    *,
    for_cpu: bool,
    run: Run = run_logged,
    free_bytes: Callable[[Path], int] = free_bytes_at,
) -> VllmEnvironment:
    """Make the environment in `folder` and return it, as `make_environment` does; `run` runs its commands.

    Raises `DiskFull` before anything is fetched where a new one for GPUs has no room on the disk, of which
    `free_bytes` tells what is free.
    """
    wanted = requirement(version, for_cpu=for_cpu)
    if not for_cpu and not (folder / "bin" / "python").is_file():
        _check_room(folder, free_bytes)
    python = make_environment(folder, [wanted], run)
    torch_build.cache_clear()
    if for_cpu:
        _allow_text_only(python, folder / LOG_NAME, run)
        package_versions.cache_clear()
        why_not_imported.cache_clear()
    found, hint = installed(python), f"What it said is in {folder / LOG_NAME}."
    if found is None:
        raise AutoinferError(f"pip installed {wanted}, and there is no vLLM at {python}.", hint)
    build = None if for_cpu else torch_build(python)
    if build is not None and build.cuda is None:
        raise AutoinferError(
            f"pip installed {wanted} with a PyTorch that can't serve on a GPU: {build.why_not_on_gpu(None)}.",
            "An index of builds for CPUs may be named by PIP_EXTRA_INDEX_URL or pip's settings, and goes "
            f"before others: leave it out and install again, with {folder} removed. {hint}",
        )
    if for_cpu and run([str(python), "-P", "-c", _NEEDED], folder / LOG_NAME) != 0:
        raise AutoinferError(f"pip installed {wanted}, and this vLLM can't be imported.", hint)
    return found


def _check_room(folder: Path, free_bytes: Callable[[Path], int]) -> None:
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    free = free_bytes(existing)
    if free < ENVIRONMENT_BYTES:
        raise DiskFull(
            f"vLLM's environment takes about {format_bytes(ENVIRONMENT_BYTES)}, and {format_bytes(free)} are "
            f"free on the disk of {folder}; nothing was fetched.",
            "Free some, or set AUTOINFER_DATA_DIR to a folder on another disk.",
        )


def _allow_text_only(python: Path, log_path: Path, run: Run) -> None:
    """Remove what can't be imported of `SOUND_AND_VIDEO`, put `text_only_torchvision.py` into the environment
    and run it at each start."""
    for package in SOUND_AND_VIDEO:
        if run([str(python), "-P", "-c", f"import {package}"], log_path) != 0:
            run([str(python), "-m", "pip", "uninstall", "--yes", package], log_path)
    told = subprocess.run([python, "-c", _SITE_PACKAGES], capture_output=True, text=True, check=True)
    site, source = Path(told.stdout.strip()), Path(text_only_torchvision.__file__)
    shutil.copyfile(source, site / f"{TEXT_ONLY}.py")
    (site / "autoinfer_text_only.pth").write_text(f"import {TEXT_ONLY}\n", encoding="utf-8")

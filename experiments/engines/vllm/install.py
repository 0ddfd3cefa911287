"""Makes an environment with vLLM: a virtual environment, and pip in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from configs.errors import AutoinferError
from experiments.engines.vllm import text_only_torchvision
from experiments.engines.vllm.environment import (
    CPU_PACKAGE,
    CUDA_PACKAGE,
    NEWEST_TRIED,
    OLDEST,
    VllmEnvironment,
    installed,
)
from experiments.other_python import package_versions

LOG_NAME = "install.log"
"""What pip said, in the folder of the environment."""

_SITE_PACKAGES = "import sysconfig; print(sysconfig.get_paths()['purelib'])"

Run = Callable[[Sequence[str], Path], int]


def requirement(version: str | None, *, for_cpu: bool) -> str:
    """What pip is asked for: a version, or the newest that this engine was written for."""
    package = CPU_PACKAGE if for_cpu else CUDA_PACKAGE
    if version is not None:
        return f"{package}=={version}"
    above = (NEWEST_TRIED[0], NEWEST_TRIED[1] + 1)
    return f"{package}>={OLDEST[0]}.{OLDEST[1]},<{above[0]}.{above[1]}"


def _run(command: Sequence[str], log_path: Path) -> int:
    with log_path.open("ab") as log:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    return done.returncode


def install(folder: Path, version: str | None, *, for_cpu: bool, run: Run = _run) -> VllmEnvironment:
    """Make the environment in `folder` and return it; one that is there already is installed into.

    pip takes packages from where it is set up to; `run` runs a command and adds what it says to a log.
    Raises `AutoinferError` with the log's name when a step fails; what was made stays, to look at.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log_path, python = folder / LOG_NAME, folder / "bin" / "python"
    log_path.unlink(missing_ok=True)
    wanted = requirement(version, for_cpu=for_cpu)
    steps: list[tuple[str, list[str]]] = [
        ("pip", [str(python), "-m", "pip", "install", "--no-input", wanted]),
    ]
    if not python.is_file():
        steps.insert(0, ("venv", [sys.executable, "-m", "venv", str(folder)]))
    for name, command in steps:
        if run(command, log_path) != 0:
            raise AutoinferError(
                f"{wanted} was not installed: {name} failed.", f"What it said is in {log_path}."
            )
    if for_cpu:
        _allow_text_only(python)
    package_versions.cache_clear()
    found = installed(python)
    if found is None:
        raise AutoinferError(
            f"pip installed {wanted}, and there is no vLLM at {python}.", f"What it said is in {log_path}."
        )
    return found


def _allow_text_only(python: Path) -> None:
    """Put `text_only_torchvision.py` into the environment and run it at each start."""
    told = subprocess.run([python, "-c", _SITE_PACKAGES], capture_output=True, text=True, check=True)
    site, source = Path(told.stdout.strip()), Path(text_only_torchvision.__file__)
    shutil.copyfile(source, site / f"autoinfer_{source.name}")
    (site / "autoinfer_text_only.pth").write_text(f"import autoinfer_{source.stem}\n", encoding="utf-8")

"""Makes an environment with vLLM."""

from __future__ import annotations

import shutil
import subprocess
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
from experiments.environment_making import LOG_NAME, Run, make_environment, run_logged
from experiments.other_python import package_versions

_SITE_PACKAGES = "import sysconfig; print(sysconfig.get_paths()['purelib'])"


def requirement(version: str | None, *, for_cpu: bool) -> str:
    """What pip is asked for: a version, or the newest that this engine was written for."""
    package = CPU_PACKAGE if for_cpu else CUDA_PACKAGE
    if version is not None:
        return f"{package}=={version}"
    above = (NEWEST_TRIED[0], NEWEST_TRIED[1] + 1)
    return f"{package}>={OLDEST[0]}.{OLDEST[1]},<{above[0]}.{above[1]}"


def install(folder: Path, version: str | None, *, for_cpu: bool, run: Run = run_logged) -> VllmEnvironment:
    """Make the environment in `folder` and return it, as `make_environment` does; `run` runs its commands."""
    wanted = requirement(version, for_cpu=for_cpu)
    python = make_environment(folder, [wanted], run)
    if for_cpu:
        _allow_text_only(python)
        package_versions.cache_clear()
    found = installed(python)
    if found is None:
        raise AutoinferError(
            f"pip installed {wanted}, and there is no vLLM at {python}.",
            f"What it said is in {folder / LOG_NAME}.",
        )
    return found


def _allow_text_only(python: Path) -> None:
    """Put `text_only_torchvision.py` into the environment and run it at each start."""
    told = subprocess.run([python, "-c", _SITE_PACKAGES], capture_output=True, text=True, check=True)
    site, source = Path(told.stdout.strip()), Path(text_only_torchvision.__file__)
    shutil.copyfile(source, site / f"autoinfer_{source.name}")
    (site / "autoinfer_text_only.pth").write_text(f"import autoinfer_{source.stem}\n", encoding="utf-8")

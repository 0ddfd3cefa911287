"""Makes an environment with lm-eval."""

from __future__ import annotations

from pathlib import Path

from configs.errors import AutoinferError
from experiments.environment_making import LOG_NAME, Run, make_environment, run_logged
from experiments.quality_tasks.environment import PACKAGE, REQUIREMENTS, tool_versions


def install(folder: Path, run: Run = run_logged) -> tuple[Path, str]:
    """Make the environment in `folder`, as `make_environment` does; its Python and the version of lm-eval."""
    python = make_environment(folder, REQUIREMENTS, run)
    version = tool_versions(python)[PACKAGE]
    if version is None:
        raise AutoinferError(
            f"pip installed {REQUIREMENTS[0]}, and there is no lm-eval at {python}.",
            f"What it said is in {folder / LOG_NAME}.",
        )
    return python, version

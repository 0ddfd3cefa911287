"""A local executor whose jobs run the simulated engine, below a temporary folder."""

import sys
from collections.abc import Mapping
from pathlib import Path

from experiments.executors.local import LocalExecutor
from experiments.job.place import Place

JOB_COMMAND = (sys.executable, "-P", "-m", "tests.simulated.job_main")


def executor_here(root: Path, place: Place) -> LocalExecutor:
    """The same as an entry point gives it, below the data folder that `root` is in."""
    return simulated_executor(root.parent)


def simulated_executor(
    data_dir: Path,
    environment: Mapping[str, str] | None = None,
    command: tuple[str, ...] = JOB_COMMAND,
    beside: tuple[str, ...] = (),
) -> LocalExecutor:
    place = Place(artifacts_dir=data_dir / "artifacts", cache_dir=data_dir / "cache", beside=beside)
    return LocalExecutor(data_dir / "jobs", place, command, environment)

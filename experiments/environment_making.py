"""Makes an environment for packages that need one of their own: a virtual environment, and pip in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from configs.errors import AutoinferError
from experiments.other_python import package_versions
from experiments.scratch import ScratchFolder

LOG_NAME = "install.log"
"""What pip said, in the folder of the environment."""

Run = Callable[[Sequence[str], Path], int]
"""Runs a command, adds what it says to a log, and returns its exit code."""


def run_logged(command: Sequence[str], log_path: Path) -> int:
    """Run a command in a process; see `Run`.

    Its temporary files, gigabytes of unpacked packages, lie beside the log: on the disk that has room for the
    environment, and swept by the next run where this one is killed. A `TMPDIR` that the user set holds.
    """
    chosen = os.environ.get("TMPDIR")
    with (
        ScratchFolder("autoinfer-install", Path(chosen) if chosen else log_path.parent) as temporary,
        log_path.open("ab") as log,
    ):
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(temporary)},
        )
    return done.returncode


def make_environment(folder: Path, wanted: Sequence[str], run: Run = run_logged) -> Path:
    """Install what is `wanted` into the environment of `folder` and return its Python; one that is there
    already is installed into.

    pip takes packages from where it is set up to. Raises `AutoinferError` with the log's name when a step
    fails; what was made stays, to look at.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log_path, python = folder / LOG_NAME, folder / "bin" / "python"
    log_path.unlink(missing_ok=True)
    steps: list[tuple[str, list[str]]] = [
        ("pip", [str(python), "-m", "pip", "install", "--no-input", *wanted]),
    ]
    if not python.is_file():
        steps.insert(0, ("venv", [sys.executable, "-m", "venv", str(folder)]))
    for name, command in steps:
        if run(command, log_path) != 0:
            raise AutoinferError(
                f"{', '.join(wanted)} was not installed: {name} failed.", f"What it said is in {log_path}."
            )
    package_versions.cache_clear()
    return python

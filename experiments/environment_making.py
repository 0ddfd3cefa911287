"""Makes an environment for packages that need one of their own: a virtual environment, and pip in it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from configs.errors import AutoinferError, UsageError
from experiments.other_python import package_versions
from experiments.scratch import ScratchFolder

LOG_NAME = "install.log"
"""What pip said, in the folder of the environment."""

LONGEST_ERROR = 300
"""Characters of pip's error that are told; all of it is in the log."""

_PIP_ERROR = "ERROR: "
_NONE = "(from versions: none)"
_VERSIONS = re.compile(r"\(from versions: ([^)]+)\)")

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


def make_environment(
    folder: Path, wanted: Sequence[str], run: Run = run_logged, *, first: Sequence[str] = ()
) -> Path:
    """Install what is `wanted` into the environment of `folder` and return its Python; one that is there
    already is installed into.

    `first` are words of a `pip install` that goes before, of what comes from elsewhere. pip takes packages
    from where it is set up to, and of what is wanted the newest that there is, also in place of a build that
    would do by its version. Raises `AutoinferError` with the log's name when a step fails; what was made
    stays, to look at.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log_path, python = folder / LOG_NAME, folder / "bin" / "python"
    log_path.unlink(missing_ok=True)
    steps = [("pip", command) for command in _installs(python, wanted, first)]
    if not python.is_file():
        steps.insert(0, ("venv", [sys.executable, "-m", "venv", str(folder)]))
    for name, command in steps:
        if run(command, log_path) != 0:
            raise AutoinferError(
                f"{', '.join(wanted)} was not installed: {name} failed{_last_error(log_path)}.",
                f"What it said is in {log_path}.",
            )
    package_versions.cache_clear()
    return python


def _installs(python: Path, wanted: Sequence[str], first: Sequence[str]) -> list[list[str]]:
    """The commands that install, in their order; see `make_environment`."""
    return [
        [str(python), "-m", "pip", "install", "--no-input", "--upgrade", *words]
        for words in (first, wanted)
        if words
    ]


def check_made_here(
    python: Path, default: Path, setting: str, wanted: Sequence[str], *, first: Sequence[str] = ()
) -> None:
    """Refuse to install into an environment that a user named by `setting` and `make_environment` did not
    make: what is there would be replaced by what is `wanted`.

    A place where nothing is yet is as good as the `default`. Raises `UsageError` with the commands that
    `make_environment` would install by.
    """
    folder = python.parent.parent
    made_here = (folder / LOG_NAME).is_file() and (folder / "pyvenv.cfg").is_file()
    if python == default:
        return
    if python == folder / "bin" / "python" and (made_here or not folder.exists()):
        return
    leave = f"Leave {setting} out, for an environment in {default.parent.parent}"
    commands = " && ".join(map(shlex.join, _installs(python, wanted, first)))
    raise UsageError(
        f"The setting {setting} names {python}, which was not made here, so nothing is installed into it.",
        f"{leave}; or install there yourself: {commands}" if python.is_file() else f"{leave}.",
    )


def _last_error(log_path: Path) -> str:
    """The last error that pip named, after a colon; empty where it named none."""
    said = log_path.read_text(encoding="utf-8", errors="replace") if log_path.is_file() else ""
    errors = [
        line.removeprefix(_PIP_ERROR).strip() for line in said.splitlines() if line.startswith(_PIP_ERROR)
    ]
    if not errors:
        return ""
    beside = "; it found no version at all, so it may not reach its package index" if _NONE in said else ""
    if not beside and (versions := _VERSIONS.findall(said)):
        beside = f"; the newest that it found is {versions[-1].rpartition(',')[2].strip()}"
    return f": {errors[-1][:LONGEST_ERROR].rstrip('.')}{beside}"

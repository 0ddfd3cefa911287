"""Another Python: where the one with a package is, and what it has installed; nothing is imported there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import experiments
from configs.quantities import format_duration
from experiments.engines.port import NOT_INSTALLED, Infeasible

_ASK_VERSIONS = """
import importlib.metadata, json, sys
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""

_ANSWER_LIMIT_S = 60.0
"""Seconds that a Python may take to start and read the versions of a few packages, less than one as a
rule."""


class NoAnswer(Exception):
    """Another Python did not answer; the message says why, as a clause."""


def python_with(
    package: str, named: str | None, variable: str, folder: str, how_to_install: str
) -> Path | None:
    """The Python that has a package: the one that is `named`, the one of the environment `folder` beside the
    package's folder or beside this Python's environment, or this one; None when none is found.

    Raises:
        Infeasible: kind `not_installed`, when `named`, the value of `variable`, is no file.
    """
    if named:
        if not Path(named).is_file():
            inside = Path(named) / "bin" / "python"
            what_to_do = f"name the one in it: {inside}" if inside.is_file() else how_to_install
            raise Infeasible(NOT_INSTALLED, f"{variable} names {named}, which is no Python; {what_to_do}.")
        return Path(named)
    for parent in (Path(experiments.__file__).parent.parent, Path(sys.prefix).parent):
        python = parent / folder / "bin" / "python"
        if python.is_file():
            return python
    return Path(sys.executable) if find_spec(package) is not None else None


@lru_cache
def package_versions(python: Path, packages: tuple[str, ...]) -> Mapping[str, str | None]:
    """The versions of these packages in that Python; None for those it lacks, and for all where it does not
    answer."""
    found: dict[str, str | None] = dict.fromkeys(packages)
    try:
        found |= answer_of(python, "-c", _ASK_VERSIONS, *packages)
    except NoAnswer:
        return found
    return found


def answer_of(python: Path, *words: str, limit_s: float = _ANSWER_LIMIT_S) -> Any:
    """What that Python prints as JSON when it is started with these words, by its own packages alone.

    Raises `NoAnswer` where it does not start, ends otherwise, takes longer than `limit_s` or prints no JSON.
    """
    try:
        told = subprocess.run(
            [python, "-P", *words],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=limit_s,
            check=True,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        ).stdout
        return json.loads(told)
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"it did not answer within {format_duration(limit_s)}") from None
    except subprocess.CalledProcessError as ended:
        last = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise NoAnswer(last or f"it ended with code {ended.returncode}") from None
    except (OSError, ValueError) as broken:
        raise NoAnswer(str(broken)) from None

"""What another Python has installed, asked of it without importing anything there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

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


@lru_cache
def package_versions(python: Path, packages: tuple[str, ...]) -> Mapping[str, str | None]:
    """The versions of these packages in that Python; None for those it lacks, and for all where it does not
    answer."""
    found: dict[str, str | None] = dict.fromkeys(packages)
    try:
        told = subprocess.run(
            [python, "-P", "-c", _ASK_VERSIONS, *packages],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            timeout=_ANSWER_LIMIT_S,
            check=True,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        ).stdout
        found |= json.loads(told)
    except (OSError, ValueError, subprocess.SubprocessError):
        return found
    return found

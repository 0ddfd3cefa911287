"""The real command in a process of its own."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
LIMIT_S = 60.0


def command_words() -> list[str]:
    """The installed script beside this Python, or the module where nothing is installed."""
    script = Path(sys.executable).with_name("autoinfer")
    return [str(script)] if script.exists() else [sys.executable, "-m", "cli"]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        return dict(json.loads(self.err))


class Autoinfer:
    """Runs command lines against one data folder, away from the user's own settings."""

    def __init__(self, data_dir: Path, before: Sequence[str] = ()) -> None:
        self.data_dir = data_dir
        self._before = tuple(before)

    def under(self, *words: str) -> Autoinfer:
        """The same, started by another command, such as `setpriv`."""
        return Autoinfer(self.data_dir, words)

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AUTOINFER_")}
        kept.pop("COLUMNS", None)
        return {**kept, "AUTOINFER_DATA_DIR": str(self.data_dir), "PYTHONPATH": str(ROOT), **more}

    def __call__(self, line: str, **environment: str) -> Ended:
        done = subprocess.run(
            [*self._before, *command_words(), *shlex.split(line)],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            env=self.environment(**environment),
            cwd=self.data_dir.parent,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def start(self, line: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._before, *command_words(), *shlex.split(line)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(**environment),
            cwd=self.data_dir.parent,
        )

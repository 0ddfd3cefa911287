"""The real command in a process of its own: the installed script, or a fork that has imported it before."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.cli.warm import run_forked

ROOT = Path(__file__).parents[3]
LIMIT_S = 120.0


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

    def __init__(self, data_dir: Path, before: Sequence[str] = (), limit_s: float = LIMIT_S) -> None:
        self.data_dir = data_dir
        self._before = tuple(before)
        self._limit_s = limit_s

    def under(self, *words: str) -> Autoinfer:
        """The same, started by another command, such as `setpriv`."""
        return Autoinfer(self.data_dir, words, self._limit_s)

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AUTOINFER_")}
        kept.pop("COLUMNS", None)
        return {**kept, "AUTOINFER_DATA_DIR": str(self.data_dir), "PYTHONPATH": str(ROOT), **more}

    def __call__(self, line: str, **environment: str) -> Ended:
        """Run to its end, by a fork that need not import what every command imports."""
        if self._before:
            return self.fresh(line, **environment)
        with tempfile.TemporaryDirectory() as folder:
            files = Path(folder) / "out", Path(folder) / "err"
            words, given = shlex.split(line), self.environment(**environment)
            code = run_forked(words, given, self.data_dir.parent, files, self._limit_s)
            out, err = (file.read_text(encoding="utf-8") for file in files)
        return Ended(code, out, err)

    def fresh(self, line: str, **environment: str) -> Ended:
        """Run the installed script to its end, in an interpreter of its own."""
        done = subprocess.run(
            [*self._before, *command_words(), *shlex.split(line)],
            capture_output=True,
            text=True,
            timeout=self._limit_s,
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

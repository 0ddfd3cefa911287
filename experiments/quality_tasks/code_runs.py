"""Runs a program that a model wrote, with its tests, in a process of its own with limits.

The limits are for accidents: time, memory, size of files, an empty environment, a folder of its own that is
thrown away. They are no sandbox: the program runs as this user, may read what this user
reads and may use the network. So nothing is run without permission (`environment.may_run_code`).
"""

from __future__ import annotations

import os
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from experiments.engines.port import Infeasible

RUN_LIMIT_S = 10.0
"""Seconds that a program and its tests may take; those of HumanEval take milliseconds."""

MEMORY_LIMIT_BYTES = 4 * 1024**3
"""Address space of a program."""

FILE_LIMIT_BYTES = 16 * 1024**2
"""The largest file that a program may write."""

HOW_TO_ALLOW = (
    "programs that a model wrote would be run here as your user; allow it with the setting "
    "run_generated_code (AUTOINFER_RUN_GENERATED_CODE=true), best on a machine that holds nothing of worth"
)


def passes(program: str, limit_s: float = RUN_LIMIT_S) -> bool:
    """Whether a program runs to its last line: it raises nothing, ends in time and does not leave early."""
    word = secrets.token_hex(16)  # written at the end, so that a program that leaves early has not passed
    text = f"{program}\n\nimport os as _os\n_os.write(1, b'{word}')\n"
    with tempfile.TemporaryDirectory(prefix="autoinfer-code-") as folder:
        path = Path(folder) / "program.py"
        path.write_text(text, encoding="utf-8", errors="replace")
        process = subprocess.Popen(
            [sys.executable, "-I", "-B", str(path)],
            cwd=folder,
            env={"PATH": os.defpath, "HOME": folder, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_limit,
        )
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            said = b""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return process.returncode == 0 and said.endswith(word.encode())


def _limit() -> None:
    seconds = int(RUN_LIMIT_S)
    for what, most in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, MEMORY_LIMIT_BYTES),
        (resource.RLIMIT_FSIZE, FILE_LIMIT_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))


class LimitedCodeEval:
    """Stands where a task loads the metric `code_eval` of the package `evaluate`, which would be fetched and
    runs programs without these limits. `compute` gives the share of programs that pass, for one a task."""

    def __init__(self, *, allowed: bool) -> None:
        self._allowed = allowed

    def compute(
        self, references: Sequence[str], predictions: Sequence[Sequence[str]], k: Sequence[int], **_: Any
    ) -> tuple[dict[str, float], None]:
        """`pass@1` of the first program of each; raises `Infeasible` without permission, and for other k."""
        if not self._allowed:
            raise Infeasible("unsupported", f"It runs code: {HOW_TO_ALLOW}.")
        if list(k) != [1]:
            raise Infeasible("unsupported", "Only pass@1 is scored, for one greedy answer an item.")
        passed = [
            passes(f"{programs[0]}\n{test}") for programs, test in zip(predictions, references, strict=True)
        ]
        return {"pass@1": sum(passed) / len(passed)}, None

"""A command computes in one thread, and what it starts is given the environment that it was given itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from configs.library_threads import THREADS_VARIABLE
from tests.history.large_history import large_history
from tests.history.large_story import Size

ASKED = {**os.environ, THREADS_VARIABLE: "2"}
"""The library starts as many, where there are as many cores."""

TELL = (
    "    import os, psutil, sys\n"
    "    threads, given = psutil.Process().num_threads(), os.environ['OPENBLAS_NUM_THREADS']\n"
    "    print('numpy' in sys.modules, threads, given, file=sys.stderr)\n"
)


def last_line(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=ASKED
    )
    return done.stderr.splitlines()[-1]


def test_what_a_command_imports_late_starts_no_threads_either() -> None:
    program = (
        "import cli.main\n"
        "def call(arguments):\n"
        "    import numpy, scipy.linalg\n"
        "    numpy.ones((500, 500)) @ numpy.ones((500, 500))\n"
        f"{TELL}"
        "    return 0\n"
        "cli.main.call = call\n"
        "cli.main.main(['run'])\n"
    )
    assert last_line(program) == "True 1 2"


@pytest.mark.parametrize("words", ["graph untested", "graph if-fell E-0003", "queue --what-if H-026"])
def test_what_learns_from_a_campaign_starts_no_threads(tmp_path: Path, words: str) -> None:
    large_history(tmp_path, Size(experiments=24, events=60)).close()
    arguments = ["--data-dir", str(tmp_path), *words.split()]
    program = f"from cli.main import main\ntry:\n    main({arguments!r})\nfinally:\n{TELL}"
    assert last_line(program) == "True 1 2"

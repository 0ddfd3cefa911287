"""What a command leaves out that answers and ends: looking for garbage, and numpy's threads."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from cli.briefly import briefly
from tests.history.large_history import large_history
from tests.history.large_story import Size


def test_no_garbage_is_looked_for_within_and_it_is_afterwards() -> None:
    assert gc.isenabled()
    with briefly():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_where_nothing_was_looked_for_before_nothing_is_afterwards() -> None:
    gc.disable()
    try:
        with briefly():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("words", ["graph untested", "graph if-fell E-0003", "queue --what-if H-026"])
def test_what_learns_from_a_campaign_starts_no_threads(tmp_path: Path, words: str) -> None:
    large_history(tmp_path, Size(experiments=24, events=60)).close()
    arguments = ["--data-dir", str(tmp_path), *words.split()]
    program = (
        "import sys, psutil\n"
        "from cli.main import call\n"
        f"code = call({arguments!r})\n"
        "print(code, 'numpy' in sys.modules, psutil.Process().num_threads(), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "0 True 1"

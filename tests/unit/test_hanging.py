"""What becomes of a test that hangs, and goes on hanging when its limit of time is over."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CONFTEST = """
from tests import hanging
from tests.hanging import *
hanging.GRACE_S = 1.0
"""
HANGS = """
import subprocess, sys

def test_that_hangs_in_its_block():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        waits_without_end(process)

def waits_without_end(process):
    try:
        process.wait()
    finally:
        process.wait()

def test_that_is_fine():
    pass
"""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-p", "no:xdist"), "in test_that_hangs_in_its_block"),
        (("-n", "1"), "crashed while running 'test_it.py::test_that_hangs_in_its_block'"),
    ],
    ids=["alone", "among workers"],
)
def test_a_hang_is_ended_with_the_name_of_its_test(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(HANGS)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 1\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", *words, "test_it.py"]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert says in done.stdout + done.stderr
    if "-n" in words:
        assert "1 failed, 1 passed" in done.stdout, "the others are run all the same"

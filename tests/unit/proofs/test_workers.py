"""The processes that share out a proof's work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from tests.proofs import transfer, transfer_hardware, transfer_launches

ROOT = Path(__file__).parents[3]
PARENT = """
import os, signal
from tests.proofs.counting import Workers
from tests.unit.proofs.test_workers import own_id

if __name__ == "__main__":
    with Workers(2) as workers:
        print(*set(workers.map(own_id, range(8))), flush=True)
        signal.pause()
"""
ENDS_S = 60
"""A worker that lives longer than this after its parent is one that stays."""


def own_id(_: int) -> int:
    return os.getpid()


def test_workers_end_with_a_parent_that_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=_environment()
    ) as parent:
        assert parent.stdout is not None
        workers = [psutil.Process(int(each)) for each in parent.stdout.readline().split()]
        assert workers
        parent.terminate()
    _, alive = psutil.wait_procs(workers, timeout=ENDS_S)
    for each in alive:
        each.kill()
    assert not alive


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("proof", [transfer.main, transfer_hardware.main, transfer_launches.main])
@pytest.mark.parametrize("option", ["--seeds", "--processes"])
def test_no_seeds_and_no_processes_are_refused_in_a_sentence(
    proof: Callable[[Sequence[str]], int], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        proof([option, "0"])
    assert f"argument {option}: 0 is none: give 1 or more" in capsys.readouterr().err

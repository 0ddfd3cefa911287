"""A process that dies without an answer is told with the last line of its log."""

import subprocess
import sys
from pathlib import Path

import pytest

from experiments.engines.one_answer import ask
from experiments.engines.port import Infeasible


def test_a_process_that_ends_without_an_answer_is_told_with_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(Infeasible, match=r"The process that counts ended: .*no_such_module") as caught:
        ask("experiments.no_such_module", {}, doing="counts", log_path=log)
    assert caught.value.kind == "crashed"
    assert "no_such_module" in log.read_text()


def test_a_process_that_has_answered_ends_in_order_though_whoever_asked_is_still_there() -> None:
    """Its stdin stays open, and a thread of it waits there for the end of it."""
    code = "from experiments.engines.one_answer import give; give(lambda request: request['number'] + 1)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b'{"number": 1}\n')
        process.stdin.flush()
        assert process.stdout.read() == b'{"ok": 2}\n'
        assert process.stderr.read() == b""
        assert process.wait() == 0

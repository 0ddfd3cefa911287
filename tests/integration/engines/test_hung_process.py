"""A process that hangs costs its own limit of time alone: neither asking it nor ending it waits longer."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from experiments.engines.port import Infeasible
from experiments.engines.server_process import LOG_TAIL_BYTES, ServerProcess
from tests.waiting import PATIENCE_S

LARGE = {"prompts": "7" * (1 << 20)}
"""A request that no pipe holds whole."""

LIMIT_S = 1.0

Started = Callable[[str], ServerProcess]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """Starts a Python that runs a text; all are ended."""
    processes: list[ServerProcess] = []

    def start(text: str) -> ServerProcess:
        command = [sys.executable, "-I", "-S", "-c", text]
        process = ServerProcess("The engine", command, lambda _: {}, tmp_path / "log", tmp_path)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.close()


@pytest.mark.timeout(60)
def test_a_request_that_is_never_read_is_given_up_at_its_limit(started: Started) -> None:
    """As by one that hangs in native code and holds Python's lock: no thread of it reads any more."""
    process = started("import time; time.sleep(600)")
    began_s = time.monotonic()
    with pytest.raises(Infeasible, match=r"did not serve them within 1 s; it was ended") as told:
        process.ask(LARGE, LIMIT_S, "serve them")
    assert told.value.kind == "timed_out"
    assert time.monotonic() - began_s < LIMIT_S + PATIENCE_S
    assert not process.is_running()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("warned", "told"),
    [
        ("", "its log names no error."),
        ("WARNING 11-28 15:16:47 [x.py:1] It waits.\n", "WARNING .* It waits."),
    ],
)
def test_what_a_hung_process_logged_as_information_is_not_told_as_its_cause(
    started: Started, warned: str, told: str
) -> None:
    said = (
        f"{warned}(MainProcess pid=2533) INFO 11-28 15:16:58 [loggers.py:335] Engine 000: Avg prompt "
        'throughput: 0.0 tokens/s\nINFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    )
    process = started(f"import sys, time; sys.stderr.write({said!r}); sys.stderr.flush(); time.sleep(600)")
    with pytest.raises(Infeasible, match=f"within 1 s; it was ended: {told}$"):
        process.ask(LARGE, LIMIT_S, "serve them")


@pytest.mark.timeout(60)
def test_the_end_of_a_line_that_the_log_s_end_cuts_is_not_told_as_a_cause(started: Started) -> None:
    route = "INFO 11-29 17:55:52 [launcher.py:195] Route: /openapi.json, Methods: HEAD, GET, and more\n"
    assert LOG_TAIL_BYTES % len(route), "it would begin with a whole line"
    said = route * (2 * LOG_TAIL_BYTES // len(route))
    process = started(f"import sys, time; sys.stderr.write({said!r}); sys.stderr.flush(); time.sleep(600)")
    with pytest.raises(Infeasible, match=r"it was ended: its log names no error\.$"):
        process.ask(LARGE, LIMIT_S, "serve them")


@pytest.mark.timeout(60)
def test_a_request_that_is_read_late_is_answered(started: Started) -> None:
    process = started(
        "import sys, time; time.sleep(0.2)\n"
        "print('{\"ok\": %d}' % len(sys.stdin.readline()), flush=True)\n"
        "sys.stdin.read()\n"
    )
    assert process.ask(LARGE, PATIENCE_S, "serve them") > 1 << 20


@pytest.mark.timeout(60)
def test_what_a_dead_process_has_started_does_not_hold_up_its_end(started: Started) -> None:
    """One that it left behind still has its output, where replies are read from in a thread."""
    process = started(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, file=sys.stderr, flush=True)\n"
        "sys.stdin.readline()\n"
    )
    try:
        with pytest.raises(Infeasible, match="instead of going on to load"):
            process.ask({}, PATIENCE_S, "load")
    finally:
        orphan = psutil.Process(int(process.last_log_line()))
        orphan.kill()
        orphan.wait()

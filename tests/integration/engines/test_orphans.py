"""What an engine's process started ends with it, also where it was killed alone."""

import os
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import psutil
import pytest

from experiments.engines.port import Infeasible
from experiments.engines.server_process import ServerProcess

STARTS_ANOTHER = """
import json, subprocess, sys
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], stdin=subprocess.DEVNULL)
print(json.dumps({"ok": other.pid}), flush=True)
sys.stdin.readlines()  # and never answers again
"""


KEEPS_SHARED_MEMORY = """
import json, sys
from multiprocessing.shared_memory import SharedMemory
kept = SharedMemory(create=True, size=8)
print("loaded", file=sys.stderr, flush=True)
print(json.dumps({"ok": kept.name}), flush=True)
sys.stdin.readlines()
"""


def at_once(pid: int) -> None:
    """Kill it before it is asked."""
    process = psutil.Process(pid)
    process.kill()
    while process.status() != psutil.STATUS_ZOMBIE:  # who waited for it would take its exit code
        time.sleep(0.01)


def while_it_is_asked(pid: int) -> None:
    """Kill it when it has the request: its output stays open, for what it started has it too."""
    threading.Timer(0.3, psutil.Process(pid).kill).start()


@pytest.mark.parametrize("kill", [at_once, while_it_is_asked])
def test_what_a_killed_process_had_started_is_ended(tmp_path: Path, kill: Callable[[int], None]) -> None:
    command = [sys.executable, "-c", STARTS_ANOTHER]
    process = ServerProcess("vLLM", command, lambda _: os.environ, tmp_path / "log", tmp_path)
    try:
        other = psutil.Process(process.ask({}, 60, "load"))
        try:
            kill(process.pid)
            with pytest.raises(Infeasible, match="signal 9"):
                process.ask({}, 60, "serve")
            assert not other.is_running()
        finally:
            if other.is_running():
                other.kill()
    finally:
        process.close()


def test_shared_memory_of_an_ended_process_is_given_back(tmp_path: Path) -> None:
    """Semaphores with names, too, which lie beside it: vLLM's engine has one for its progress bars."""
    command = [sys.executable, "-c", KEEPS_SHARED_MEMORY]
    process = ServerProcess("vLLM", command, lambda _: os.environ, tmp_path / "log", tmp_path)
    try:
        name = process.ask({}, 60, "load")
    finally:
        process.close()
    with pytest.raises(FileNotFoundError):
        SharedMemory(name).unlink()
    assert process.last_log_line() == "loaded"

"""Where the fake starts containers: forked from a process that has loaded Modal's runtime, for speed.

`python -m tests.simulated.modal.machine` reads a line of JSON for each container (`environment`, `log`) and
answers with the id of its process, which runs `modal._container_entrypoint` as a container on Modal does.
"""

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import psutil

from tests.waiting import PATIENCE_S


def main() -> None:
    import modal
    import modal._container_entrypoint  # noqa: F401

    import tests.simulated.modal.app  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        told = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become_container(told)
        print(pid, flush=True)


def _become_container(told: dict) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    log = os.open(told["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.environ.update(told["environment"])
    tempfile.tempdir = None  # the container's own, and not what was found before
    for name in ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"):
        os.environ.pop(name, None)
    sys.argv = ["modal._container_entrypoint"]
    sys.modules.pop("modal._container_entrypoint", None)
    code = 1
    try:
        runpy.run_module("modal._container_entrypoint", run_name="__main__")
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Machine:
    """Starts containers and ends them with everything they started."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.simulated.modal.machine"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._lock = threading.Lock()
        self.started: list[int] = []

    def start(self, environment: dict[str, str], log: Path) -> int:
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps({"environment": environment, "log": str(log)}) + "\n")
            self._process.stdin.flush()
            pid = int(self._process.stdout.readline())
        self.started.append(pid)
        return pid

    def close(self) -> None:
        for pid in self.started:
            end(pid)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()


def processes(pid: int) -> list[psutil.Process]:
    """A container's process and all that it started."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def end(pid: int) -> None:
    """End a container as its host does: at once, with everything in it."""
    found = processes(pid)
    for each in found:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(found, timeout=PATIENCE_S)


if __name__ == "__main__":
    main()

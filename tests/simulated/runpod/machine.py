"""Where the fake starts pods: forked from a process that has loaded what they load, for speed.

`python -m tests.simulated.runpod.machine` reads a line of JSON for each pod (`environment`, `log`) and
answers with the id of its process, which is the pod's own first process with its own code; jobs run the
simulated engine of the tests.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from contextlib import suppress
from pathlib import Path

import psutil

from tests.waiting import PATIENCE_S

KEPT = ("PATH", "PYTHONPATH", "HOME", "LANG")
"""All that a pod has of this machine's environment."""


def main() -> None:
    from experiments.executors.runpod import body_process, pod
    from tests.simulated.runpod.gpu import container

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        told = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            log = os.open(told["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            nothing = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((nothing, 0), (log, 1), (log, 2)):
                os.dup2(source, target)
            kept = {name: os.environ[name] for name in KEPT if name in os.environ}
            os.environ.clear()
            os.environ.update(kept | told["environment"])
            tempfile.tempdir = None  # the pod's own, and not what was found before
            try:
                pod.main(lambda: body_process.main(container()), longest_wait_s=0.2)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        print(pid, flush=True)


class Machine:
    """Starts pods."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.simulated.runpod.machine"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._lock = threading.Lock()

    def start(self, environment: dict[str, str], log: Path) -> psutil.Process:
        """The first process of a new pod, which ends by nothing but a signal."""
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps({"environment": environment, "log": str(log)}) + "\n")
            self._process.stdin.flush()
            return psutil.Process(int(self._process.stdout.readline()))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait(20)
        self._process.stdout.close()


def everything_of(first: psutil.Process) -> list[psutil.Process]:
    """A pod's first process and all that it started, as far as they live."""
    try:
        return [first, *first.children(recursive=True)] if first.is_running() else []
    except psutil.NoSuchProcess:
        return []


def end(found: list[psutil.Process]) -> None:
    """End them at once, as the host of a pod does; a process whose id was given to another is left."""
    for each in found:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(found, timeout=PATIENCE_S)


if __name__ == "__main__":
    main()

"""Which of the processes that a job started still run. They are real."""

from __future__ import annotations

import subprocess
import sys

import psutil

from experiments.own_processes import runs
from tests.waiting import wait_for

SLEEPS = "import time; print(flush=True); time.sleep(60)"

OUTLIVES_ITS_FIRST_THREAD = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print(flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_runs_until_it_ends_though_nobody_has_waited_for_it() -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEPS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seen = psutil.Process(process.pid)
        assert runs(seen)
        process.kill()
        wait_for(lambda: seen.status() == psutil.STATUS_ZOMBIE, 10)
        assert not runs(seen)
    assert not runs(seen)


def test_a_process_runs_as_long_as_one_of_its_threads() -> None:
    command = [sys.executable, "-c", OUTLIVES_ITS_FIRST_THREAD]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        seen = psutil.Process(process.pid)
        try:
            wait_for(lambda: seen.status() == psutil.STATUS_ZOMBIE, 10)
            assert runs(seen)
        finally:
            process.kill()

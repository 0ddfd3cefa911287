"""What a killed test process leaves behind: nothing that was started so."""

import shutil
import subprocess
import sys

import psutil
import pytest

from experiments.own_processes import runs
from tests.outliving import not_outliving
from tests.waiting import wait_for

PARENT = """
import subprocess, sys, time
child = subprocess.Popen(sys.argv[1:])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv of util-linux is not on this machine")
def test_a_process_ends_with_who_started_it_even_where_that_is_killed() -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    command = [sys.executable, "-c", PARENT, *not_outliving(sleeper)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        try:
            wait_for(lambda: child.cmdline() == sleeper)  # setpriv has had its turn
            parent.kill()
            wait_for(lambda: not runs(child))
        finally:
            parent.kill()
            if child.is_running():
                child.kill()

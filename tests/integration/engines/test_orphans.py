"""What an engine's process started ends with it, also where it was killed alone."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from experiments.engines.port import Infeasible
from experiments.engines.server_process import ServerProcess

STARTS_ANOTHER = """
import json, subprocess, sys
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], stdin=subprocess.DEVNULL)
for _ in sys.stdin:
    print(json.dumps({"ok": other.pid}), flush=True)
"""


def test_what_a_killed_process_had_started_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS_ANOTHER]
    process = ServerProcess("vLLM", command, lambda _: os.environ, tmp_path / "log", tmp_path)
    try:
        other = psutil.Process(process.ask({}, 60, "load"))
        try:
            psutil.Process(process.pid).kill()
            with pytest.raises(Infeasible, match="signal 9"):
                process.ask({}, 60, "serve")
            assert not other.is_running()
        finally:
            if other.is_running():
                other.kill()
    finally:
        process.close()

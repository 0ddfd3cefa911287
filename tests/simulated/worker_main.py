"""A worker process for tests: `python -P -m tests.simulated.worker_main URL DATA_DIR LEASE_S [WORD…]`.

Words: `once` ends when the queue is empty, a number ends when it is no longer the parent's process id,
`beside=` with JSON is the command that pairs of a series may have beside them.
In the environment, `TESTS_HOST` is the name of the host that it believes to be on, `TESTS_CLOCK_AHEAD_S` by
how many seconds its clock is ahead.
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

from db.session import open_database
from experiments.stop_flag import StopFlag
from experiments.worker.settings import WorkerTimes
from experiments.worker.worker import run_worker
from tests.simulated.places import simulated_executor


def main() -> None:
    url, data_dir, lease_s, words = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
    beside = [word.removeprefix("beside=") for word in words if word.startswith("beside=")]
    words = [word for word in words if not word.startswith("beside=")]
    stop = StopFlag()
    ahead_s, right = float(os.environ.get("TESTS_CLOCK_AHEAD_S", "0")), time.time
    time.time = lambda: right() + ahead_s
    if host := os.environ.get("TESTS_HOST"):
        socket.gethostname = lambda: host
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    run_worker(
        open_database(url),
        simulated_executor(data_dir, beside=tuple(json.loads(beside[0]) if beside else ())),
        next((word for word in words if word != "once" and not word.isdigit()), "cpu"),
        times=WorkerTimes(lease_s=lease_s, busy_poll_s=0.1, idle_poll_s=0.02, progress_s=0.1),
        stop=stop,
        once="once" in words,
        end_with_parent=next((int(word) for word in words if word.isdigit()), None),
    )


if __name__ == "__main__":
    main()

"""A remote worker as a process for tests, with words after its arguments.

URL DATA_DIR LEASE_S [once|leave|pid=PID|at-once=N …]; it takes jobs for `files:T`.
"""

import signal
import sys
from pathlib import Path

from db.session import open_database
from experiments.remote.settings import RemoteTimes
from experiments.remote.worker import RemoteWorker
from experiments.stop_flag import StopFlag
from tests.simulated.remote_executor import FileProvider

TARGET = "files:T"


def main() -> None:
    url, data_dir, lease_s, words = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
    stop = StopFlag()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    worker = RemoteWorker(
        open_database(url),
        FileProvider(data_dir / "jobs", target=TARGET),
        TARGET,
        at_once=next((int(word[8:]) for word in words if word.startswith("at-once=")), 20),
        times=RemoteTimes(lease_s=lease_s, look_s=0.05, soonest_s=0.05, latest_s=0.1),
        logs_root=data_dir / "jobs",
        stop=stop,
        leave_running="leave" in words,
        end_with_parent=next((int(word[4:]) for word in words if word.startswith("pid=")), None),
    )
    worker.run(once="once" in words)


if __name__ == "__main__":
    main()

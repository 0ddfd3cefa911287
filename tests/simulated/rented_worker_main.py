"""A worker of rented machines as a process, whose jobs go to the fake of Modal or of RunPod.

python -m tests.simulated.rented_worker_main DATABASE DATA_DIR modal
python -m tests.simulated.rented_worker_main DATABASE DATA_DIR runpod API BOARD BOARD_FROM_POD
"""

import signal
import sys
from pathlib import Path

from db.session import open_database
from experiments.executors.port import Executor
from experiments.remote.settings import RemoteTimes
from experiments.remote.worker import RemoteWorker
from experiments.stop_flag import StopFlag

LEASE_S = 60.0
"""Long: whoever takes over does so because the last worker's process is gone."""


def executor_of(provider: str, folder: Path, words: list[str]) -> Executor:
    if provider == "modal":
        from tests.simulated.modal.places import modal_executor

        return modal_executor(folder)
    from tests.simulated.runpod.places import runpod_executor

    url, board, board_from_pod = words
    return runpod_executor(folder, url, board, board_from_pod)


def main() -> None:
    url, folder, provider, *words = sys.argv[1:]
    stop = StopFlag()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    RemoteWorker(
        open_database(url),
        executor_of(provider, Path(folder), words),
        f"{provider}:cpu",
        at_once=4,
        times=RemoteTimes(lease_s=LEASE_S, look_s=0.05, soonest_s=0.05, latest_s=0.1),
        logs_root=Path(folder) / "jobs",
        stop=stop,
    ).run()


if __name__ == "__main__":
    main()

"""A process that submits a job: `python -m tests.simulated.runpod.submitting FOLDER API BOARD FROM_POD KEY`.

It says the ref as soon as it has it, and at the end the state.
"""

import sys
import time
from pathlib import Path

from experiments.executors.port import RunState
from tests.simulated.runpod.places import runpod_executor
from tests.simulated.specs import a_test_job


def main() -> None:
    folder, url, board, from_pod, key = sys.argv[1:]
    executor = runpod_executor(Path(folder), url, board, from_pod)
    ref = executor.submit(key, a_test_job())
    print(ref, flush=True)
    while (status := executor.poll(ref)).state in (RunState.PENDING, RunState.RUNNING):
        time.sleep(0.05)
    print(status.state, flush=True)


if __name__ == "__main__":
    main()

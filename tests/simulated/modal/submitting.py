"""A process that submits a job and follows it: `python -m tests.simulated.modal.submitting FOLDER KEY`.

It says the ref as soon as it has it, and at the end the state.
"""

import sys
import time
from pathlib import Path

from experiments.executors.port import RunState
from tests.simulated.modal.places import modal_executor
from tests.simulated.specs import a_test_job


def main() -> None:
    executor = modal_executor(Path(sys.argv[1]))
    ref = executor.submit(sys.argv[2], a_test_job())
    print(ref, flush=True)
    while (status := executor.poll(ref)).state in (RunState.PENDING, RunState.RUNNING):
        time.sleep(0.02)
    print(status.state, flush=True)


if __name__ == "__main__":
    main()

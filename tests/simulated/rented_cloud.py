"""The provider in files with bodies that work: a submit starts a process that outlives everybody, and runs
the job as a rented machine would, with the simulated engine in real processes. It is no GPU and claims none.

`python -P -m tests.simulated.rented_cloud FOLDER` is such a body: it runs `FOLDER/spec.json` to its end,
which it writes to `FOLDER/ended.json` with the seconds it took. What it is paid by is those seconds.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from experiments.executors.copied_text import chunk_of
from experiments.executors.extras import EXTRAS_NAME, ExtrasWriter
from experiments.executors.port import LogChunk, Quote, RentedMachine, RunState, Status
from experiments.job.journal import read_records
from experiments.job.spec import AnyJob, parse_job
from tests.simulated.gpu_samples import made_up_sampler
from tests.simulated.places import simulated_executor
from tests.simulated.remote_executor import RATE_USD_PER_S, FileProvider, _read, _write
from tests.waiting import wait_for

GPU_VARIABLE = "FAKE_GPU"
"""Environment variable with the driver's name and the GB of the made-up GPU that machines read, such as
`NVIDIA L4,24`; without it they have none."""

SAMPLE_S = 0.1

LONGEST_S = 600.0

BOUND_USD = LONGEST_S * RATE_USD_PER_S
"""The quote of every job: sixty cents."""


class RentedCloud(FileProvider):
    """Targets `cloud:L4`, and `cloud:cpu`."""

    name = "cloud"

    @classmethod
    def machine(cls, target: str) -> RentedMachine:
        gpu = target.partition(":")[2].lower()
        return RentedMachine(None if gpu == "cpu" else gpu, cores=2, memory_bytes=8 * 2**30)

    def quote(self, spec: AnyJob, limit_s: float | None = None) -> Quote:
        self._reach()
        return Quote(10.0, LONGEST_S, 10.0 * RATE_USD_PER_S, BOUND_USD, "the tests' own price")

    def _begin(self, folder: Path, spec: AnyJob) -> None:
        (folder / "spec.json").write_text(spec.model_dump_json())
        with (folder / "body.log").open("ab") as log:
            body = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.simulated.rented_cloud", str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (folder / "pid").write_text(str(body.pid))

    def poll(self, ref: str) -> Status:
        found = super().poll(ref) if not self._is_done(ref) else Status(RunState.DONE)
        if found.state is not RunState.DONE:
            return found
        [records] = (self.cloud / ref / "jobs").glob("*/records.jsonl")
        return Status(RunState.DONE, result=read_records(records))

    def cancel(self, ref: str) -> None:
        self._reach()
        folder = self.cloud / ref
        if (folder / "ended.json").exists():
            return
        with suppress(ProcessLookupError):
            os.killpg(int((folder / "pid").read_text()), signal.SIGKILL)
        began = json.loads((folder / "run.json").read_text())["at_s"]
        self.end(ref, RunState.CANCELLED, time.time() - began)

    def freeze(self, ref: str) -> None:
        """Stop the machine where it is, so that it is still there at the next look; `cancel` ends it."""
        os.killpg(int((self.cloud / ref / "pid").read_text()), signal.SIGSTOP)

    def extras(self, ref: str, cursor: int = 0) -> LogChunk | None:
        found = next((self.cloud / ref / "jobs").glob(f"*/{EXTRAS_NAME}"), None)
        return None if found is None else chunk_of(found, cursor)

    def _is_done(self, ref: str) -> bool:
        self._reach()
        return (_read(self.cloud / ref / "ended.json") or {}).get("state") == RunState.DONE.value


def main() -> None:
    folder, began = Path(sys.argv[1]), time.monotonic()
    wait_for((folder / "run.json").exists)  # its end is none before somebody can find it
    executor = simulated_executor(folder)
    ref = executor.submit(folder.name, parse_job(json.loads((folder / "spec.json").read_text())))
    sample = made_up_sampler(os.environ.get(GPU_VARIABLE))
    with ExtrasWriter(executor.root / ref, sample, SAMPLE_S) as extras:
        while (status := executor.poll(ref)).state in (RunState.PENDING, RunState.RUNNING):
            extras.look()
            executor.wait(ref, 0.2)
        extras.look(last=True)
    executor.close()
    ended = {"state": status.state.value, "wall_s": time.monotonic() - began, "failure": status.failure}
    _write(folder / "ended.json", ended)


if __name__ == "__main__":
    main()

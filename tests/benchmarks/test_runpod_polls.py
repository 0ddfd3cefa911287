"""What it takes to look at runs on RunPod, beside RunPod's own answers: a board in a real PostgreSQL, the
fake of RunPod's API with pods that do nothing, and runs that told a line of log since the last look.

    python -m pytest tests/benchmarks/test_runpod_polls.py -s -m bench_only
"""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.executors.port import RunState
from tests import postgresql
from tests.benchmarks.slowness import slowness
from tests.simulated.runpod.places import QUICK, RunPodPlace
from tests.simulated.runpod.server import SECRET, FakeRunPod
from tests.simulated.specs import a_test_job

RUNS = 200
LOOKS_A_S = 1000 / 30
"""How often 1,000 runs of more than five minutes are looked at (`experiments.remote.settings`)."""

MOST_SHARE_OF_A_CORE = 0.05


@pytest.mark.bench_only
def test_looking_at_a_thousand_runs_takes_a_small_share_of_a_core(tmp_path: Path):
    fake = FakeRunPod(tmp_path)
    with postgresql.serving() as server:
        server.execute(f"CREATE ROLE autoinfer_pod LOGIN PASSWORD '{SECRET}'")
        place = RunPodPlace(fake, tmp_path, server.url(server.empty_database()), "postgresql://pod@none/none")
        fake.hold = True
        executor = place.executor(patience=replace(QUICK, list_s=2.0, startup_s=3600.0))
        begun_s = time.monotonic()
        refs = [executor.submit(f"run-{number}", a_test_job()) for number in range(RUNS)]
        submit_s = (time.monotonic() - begun_s) / RUNS
        took = []
        for look in range(2):
            for number in range(RUNS):
                key = f"run-{number}"
                executor._board.claim(key, "pod/boot")
                executor._board.tell(key, [("log.txt", look, "\n")])
            begun = time.process_time()
            for ref in refs:
                assert executor.poll(ref).state is RunState.RUNNING
            took.append((time.process_time() - begun) / RUNS)
        share = took[-1] * LOOKS_A_S
        print(
            f"\nsubmit {submit_s * 1e3:.0f} ms; a look {took[-1] * 1e3:.1f} ms of processor: "
            f"{share:.1%} of a core for 1,000 runs"
        )
        place.close()
        fake.close()
    assert share < MOST_SHARE_OF_A_CORE * min(slowness(), 3.0)

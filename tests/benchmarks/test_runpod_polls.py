"""What it takes to look at runs on RunPod: a board in a real PostgreSQL, the fake of RunPod's API with pods
that do nothing, and runs that told a line of log since the last look, at the pace of the worker's looks. What
RunPod and the board themselves take is not counted.

    python -m pytest tests/benchmarks/test_runpod_polls.py -s -m bench_only
"""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.executors.port import RunState
from experiments.remote.looks import LOOKS_A_TURN
from tests import postgresql
from tests.benchmarks.slowness import slowness
from tests.simulated.runpod.places import QUICK, RunPodPlace
from tests.simulated.runpod.server import SECRET, FakeRunPod
from tests.simulated.specs import a_test_job

RUNS = 1000
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
        executor.submit("run-0", a_test_job())
        executor._board.claim("run-0", "pod/boot")  # so that the image is in no doubt
        begun_s = time.monotonic()
        refs = [executor.submit(f"run-{number}", a_test_job()) for number in range(RUNS)]
        submit_s = (time.monotonic() - begun_s) / RUNS
        for number in range(1, RUNS):
            executor._board.claim(f"run-{number}", "pod/boot")
        for ref in refs:  # each is known, and its pod noted
            assert executor.poll(ref).state is RunState.RUNNING
        for number in range(RUNS):
            executor._board.tell(f"run-{number}", [("log.txt", 0, "\n")])
        begun_s, used_s = time.monotonic(), time.thread_time()
        for first in range(0, RUNS, LOOKS_A_TURN):
            due = refs[first : first + LOOKS_A_TURN]
            time.sleep(max(0.0, begun_s + (first + len(due)) / LOOKS_A_S - time.monotonic()))
            executor.ahead(due)
            for ref in due:
                assert executor.poll(ref).state is RunState.RUNNING
        share = (time.thread_time() - used_s) / (time.monotonic() - begun_s)
        copies = [path.read_text() for path in tmp_path.rglob("log.txt")]
        assert copies == ["\n"] * RUNS, "what each told was copied"
        print(f"\nsubmit {submit_s * 1e3:.0f} ms; {share:.1%} of a core for 1,000 runs")
        place.close()
        fake.close()
    assert share < MOST_SHARE_OF_A_CORE * min(slowness(), 3.0)

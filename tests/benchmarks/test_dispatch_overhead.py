"""From the last record of one job to the first record of the next: what the worker and a fresh process cost.

Real worker, real database, real job processes with the judge loaded; the engine is the simulated one,
because its launches are no part of the gap. The gap is split at the submit of the next job: before it lie
the end of the old process, the recording of its result and the claim (the worker's share); after it the
start of Python and imports.
"""

import json
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

from pytest_benchmark.fixture import BenchmarkFixture

from experiments.job.journal import RecordKind
from experiments.job.place import RECORDS_NAME
from experiments.worker.worker import run_worker
from tests.benchmarks.slowness import slowness
from tests.simulated.places import simulated_executor
from tests.simulated.queueing import enqueue_job, new_database, start_campaign
from tests.simulated.specs import a_test_job

JOBS = 8

EXPERIMENT_S = 60.0
"""A short experiment on the reference model, seconds: the gap is compared with this."""

TARGET_SHARE = 0.02
"""Most of an experiment's time that planning and dispatch may take (ARCHITECTURE.md)."""

WORKER_TARGET_S = 0.2
"""Most of the gap that may be the worker's own, seconds: less than the start of Python beside it."""


def test_the_gap_between_experiments_is_below_two_percent(benchmark: BenchmarkFixture, tmp_path: Path):
    database = new_database(tmp_path)
    campaign = start_campaign(database)
    for seed in range(JOBS):
        enqueue_job(database, campaign, partial(a_test_job, judge="launch-interval", seed=seed))
    executor = simulated_executor(tmp_path)

    ended = benchmark.pedantic(run_worker, args=(database, executor, "cpu"), kwargs={"once": True}, rounds=1)

    assert ended == JOBS
    folders = sorted((tmp_path / "jobs").iterdir(), key=submitted_s)
    couples = list(pairwise(folders))
    worker = [submitted_s(after) - record_s(before, RecordKind.END) for before, after in couples]
    spawn = [record_s(after, RecordKind.STARTED) - submitted_s(after) for _, after in couples]
    gap = [a + b for a, b in zip(worker, spawn, strict=True)]
    shares = {"gap": gap, "worker": worker, "spawn and imports": spawn}
    for name, values in shares.items():
        benchmark.extra_info[f"{name}_s"] = [round(value, 3) for value in values]
        print(f"{name}: median {median(values):.3f} s, best {min(values):.3f} s")
    # The best counts: other work only ever slows it down. On a slow machine an experiment is longer, too.
    slower = slowness()
    assert min(worker) < WORKER_TARGET_S * slower
    assert min(gap) < TARGET_SHARE * EXPERIMENT_S * slower
    database.close()
    executor.close()


def submitted_s(folder: Path) -> float:
    return float(json.loads((folder / "process.json").read_text())["submitted_at_s"])


def record_s(folder: Path, kind: RecordKind) -> float:
    lines = map(json.loads, (folder / RECORDS_NAME).read_text().splitlines())
    return next(datetime.fromisoformat(line["at"]).timestamp() for line in lines if line["record"] == kind)

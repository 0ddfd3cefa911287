"""How long a device is idle between the experiments of a campaign that has two.

As `test_dispatch_overhead`, which says what is real: the loop, an `autoinfer worker` for each device, the
database and the job processes; the engine is the simulated one, whose requests take a fixed time, and the
devices are names that nobody has. A device is idle from the end of a job to the first record of the next one
on it, while the other device is at work.
"""

import os
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from sqlalchemy import select

from agent.campaign.loop import CampaignLoop
from agent.campaign.resources.worker_process import WorkerProcess, Workers
from db.models import Job
from db.session import Database
from experiments.job.journal import RecordKind
from tests.benchmarks.slowness import Promise
from tests.benchmarks.test_dispatch_overhead import (
    EXPERIMENT_S,
    ROOT,
    SMALL,
    TARGET_SHARE,
    record_s,
    run_of,
    stop_after,
)
from tests.simulated.campaign import registered_here, start

DEVICES = ("cuda:0", "cuda:1")

VERDICTS = 10

SPACE = """
name: timed
knobs:
  - {name: simulated.tpot_ms, lever: kernel, values: [10.0, 9.95, 9.9, 9.85, 9.8], default: 10.0, help: Time.}
  - {name: simulated.threads, lever: threads, values: [1, 2], default: 1, help: Changes nothing.}
  - {name: simulated.request_s, lever: none, values: [0.5], default: 0.5, help: A request's time.}
"""
"""A test of one launch pair takes twenty seconds or so, whatever it tests."""


@pytest.mark.bench_only
@pytest.mark.timeout(900)
def test_a_device_is_idle_for_less_than_two_percent_of_an_experiment(
    benchmark: BenchmarkFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"target": ",".join(DEVICES), "least_verdicts": VERDICTS, **SMALL}
    database, campaign_id = start(tmp_path, space_text=SPACE, **asked)
    with registered_here(tmp_path):
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path / "site"), str(ROOT))))
        workers = Workers({each: worker_of(tmp_path, each) for each in DEVICES})
        try:
            loop = CampaignLoop(
                database, campaign_id, workers=workers, announce=stop_after(database, campaign_id, VERDICTS)
            )
            benchmark.pedantic(loop.run, rounds=1)
        finally:
            workers.stop()
    found = {device: spans_of(database, tmp_path / "jobs", device) for device in DEVICES}
    database.close()
    gaps = []
    for device, spans in found.items():
        assert len(spans) > 1
        idle = [after[0] - before[1] for before, after in pairwise(spans)]
        worked = [end - begin for begin, end in spans]
        gaps += idle
        told = (
            f"{device}: {len(spans)} experiments of {median(worked):.1f} s (median), idle between them "
            f"{median(idle):.2f} s (median, {min(idle):.2f} to {max(idle):.2f}), "
            f"{sum(idle) / sum(worked):.1%} of their time"
        )
        print(f"\n{told}", end="")
        benchmark.extra_info[device] = told
    promise = Promise("s idle between experiments (median)", TARGET_SHARE * EXPERIMENT_S)
    promise.hold(median(gaps))


def worker_of(data_dir: Path, device: str) -> WorkerProcess:
    command = [sys.executable, "-P", "-m", "cli", "--data-dir", str(data_dir), "worker", "--device", device]
    return WorkerProcess(
        [*command, "--end-with-parent", str(os.getpid())], data_dir / f"worker-{device[-1]}.log"
    )


def spans_of(database: Database, jobs: Path, device: str) -> list[tuple[float, float]]:
    """When the tests on a device began and ended, seconds; without the baseline."""
    with database.read() as session:
        rows = session.scalars(select(Job).order_by(Job.id)).all()[1:]
    ended = [each for each in rows if each.device_class == device and each.finished_at is not None]
    folders = [run_of(jobs, each) for each in ended]
    return [(record_s(each, RecordKind.STARTED), record_s(each, RecordKind.END)) for each in folders]

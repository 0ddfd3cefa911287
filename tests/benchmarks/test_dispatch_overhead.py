"""From the last record of one job to the first record of the next: what a campaign costs between tests.

The real loop (learn, propose with Optuna, believe, rank, dispatch), the real `autoinfer worker` beside it, a
real database and real job processes that load everything a job loads, on the packaged model; only the engine
is the simulated one, because its launches are no part of the gap. The gap is told in four parts: `record`,
until the result is in the database; `loop`, until the next job is in the queue; `claim`, until the worker has
submitted it; `spawn`, until its process, forked from one that has loaded what jobs need, writes its first
record.
"""

import json
import os
import sys
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from sqlalchemy import func, select

from agent.campaign.loop import CampaignLoop
from agent.campaign.resources.worker_process import WorkerProcess, Workers
from db.models import Campaign, Job, Verdict
from db.session import Database
from db.states import CampaignState
from experiments.job.journal import RecordKind
from experiments.job.place import RECORDS_NAME
from knowledge.acts.steering import stop_campaign
from tests.benchmarks.slowness import Promise
from tests.simulated.campaign import registered_here, start

ROOT = Path(__file__).parents[2]

VERDICTS = 7
"""Tests that are judged before the campaign is stopped: as many gaps before them, the baseline's first."""

EXPERIMENT_S = 60.0
"""A short experiment on the reference model, seconds: the gap is compared with this."""

TARGET_SHARE = 0.02
"""Most of an experiment's time that planning and dispatch may take (ARCHITECTURE.md), on an idle machine."""

SMALL = {
    "model": "reference",
    "plan.workload.evaluation_documents": 8,
    "plan.workload.evaluation_tokens_per_document": 64,
    "plan.workload.evaluation_items": 100,
}
"""Little text to prepare: a job's own work is no part of the gap."""


@pytest.mark.timeout(600)
def test_planning_and_dispatch_take_less_than_two_percent_of_an_experiment(
    benchmark: BenchmarkFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, campaign_id = start(tmp_path, **SMALL)
    with registered_here(tmp_path):
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path / "site"), str(ROOT))))
        worker = WorkerProcess(worker_words(tmp_path), tmp_path / "worker.log")
        enough = stop_after(database, campaign_id, VERDICTS)
        with worker:
            loop = CampaignLoop(database, campaign_id, workers=Workers({"cpu": worker}), announce=enough)
            benchmark.pedantic(loop.run, rounds=1)
    gaps = gaps_of(database, tmp_path / "jobs")
    database.close()

    assert len(gaps) >= VERDICTS
    for part in gaps[0]:
        values = [gap[part] for gap in gaps]
        benchmark.extra_info[f"{part}_s"] = [round(value, 3) for value in values]
        print(f"\n{part:>6}: median {median(values):.3f} s, {min(values):.3f} to {max(values):.3f}", end="")
    promise = Promise("s between experiments (median)", TARGET_SHARE * EXPERIMENT_S)
    promise.hold(median(gap["gap"] for gap in gaps))


def worker_words(data_dir: Path) -> list[str]:
    command = [sys.executable, "-P", "-m", "cli", "--data-dir", str(data_dir), "worker"]
    return [*command, "--end-with-parent", str(os.getpid())]


def stop_after(database: Database, campaign_id: int, verdicts: int) -> Callable[[], None]:
    """Asks the campaign to stop in good order when it has judged so many tests; called after every turn."""

    def look() -> None:
        with database.read() as session:
            judged = session.scalar(select(func.count()).select_from(Verdict))
            running = session.get_one(Campaign, campaign_id).state is CampaignState.RUNNING
        if running and judged is not None and judged >= verdicts:
            with database.write() as session:
                stop_campaign(session, campaign_id)

    return look


def gaps_of(database: Database, jobs: Path) -> list[dict[str, float]]:
    """Seconds between each job and the next, by part and in all, under `gap`."""
    with database.read() as session:
        rows = session.scalars(select(Job).order_by(Job.id)).all()
    found = []
    for before, after in pairwise(rows):
        ended = record_s(run_of(jobs, before), RecordKind.END)
        assert before.finished_at is not None
        recorded, dispatched = before.finished_at.timestamp(), after.created_at.timestamp()
        submitted, began = submitted_s(run_of(jobs, after)), record_s(run_of(jobs, after), RecordKind.STARTED)
        found.append(
            {
                "record": recorded - ended,
                "loop": dispatched - recorded,
                "claim": submitted - dispatched,
                "spawn": began - submitted,
                "gap": began - ended,
            }
        )
    return found


def run_of(jobs: Path, job: Job) -> Path:
    (folder,) = jobs.glob(f"job{job.id}-*")
    return folder


def submitted_s(folder: Path) -> float:
    return float(json.loads((folder / "process.json").read_text())["submitted_at_s"])


def record_s(folder: Path, kind: RecordKind) -> float:
    lines = map(json.loads, (folder / RECORDS_NAME).read_text().splitlines())
    return next(datetime.fromisoformat(line["at"]).timestamp() for line in lines if line["record"] == kind)

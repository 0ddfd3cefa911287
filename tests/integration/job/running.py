"""Running jobs with real processes of the simulated engine, and what their records hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.artifacts.store import ArtifactStore
from experiments.job.context import JobContext
from experiments.job.device_guard import DeviceGuard
from experiments.job.journal import read_records
from experiments.job.records import Records
from experiments.job.result import JobResult
from experiments.job.run import run_job
from experiments.job.spec import BaselineJob, TestJob
from experiments.measurement.evidence import LaunchRecord, Metric, Stage
from experiments.measurement.judging import Judge, MeasurePair, Step
from experiments.own_processes import begun_beside, children
from tests.simulated.engine import SimulatedEngine
from tests.simulated.judges import StepsJudge
from tests.simulated.material import SimulatedMaterial, SimulatedPruning

Run = Callable[..., JobResult]

ONE_PAIR: Sequence[Step] = [MeasurePair(Stage.QUICK, 2)]


def a_place(folder: Path, shared: Path, store: ArtifactStore) -> JobContext:
    """Where a job of the simulated engine runs: in `folder`, with the cache in `shared`."""
    return JobContext(
        folder,
        Path("simulated"),
        store,
        shared / "cache",
        2,
        SimulatedMaterial(),
        (SimulatedPruning(),),
    )


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs a spec in a folder of its own; afterwards no process may be left."""
    (tmp_path / "cache").mkdir()
    before = children()
    runs = 0

    def run(
        spec: BaselineJob | TestJob,
        judge: Judge | Sequence[Step] = ONE_PAIR,
        engine: SimulatedEngine | None = None,
        guard: DeviceGuard | None = None,
        **context: object,
    ) -> JobResult:
        nonlocal runs
        folder = tmp_path / str(runs)
        folder.mkdir()
        runs += 1
        steering = StepsJudge(judge) if isinstance(judge, Sequence) else judge
        with ArtifactStore(tmp_path / "artifacts") as store, Records(folder / "records.jsonl") as records:
            place = replace(a_place(folder, tmp_path, store), **context)  # type: ignore[arg-type]
            result = run_job(spec, place, engine or SimulatedEngine(), steering, records, guard=guard)
        assert read_records(folder / "records.jsonl") == result
        places = [(each.stage, each.arm, each.index, each.configuration_digest) for each in result.launches]
        assert len(places) == len(set(places)), "the database takes one launch a place"
        return result

    yield run
    assert not begun_beside(before)


def items(launch: LaunchRecord, metric: Metric) -> set[str]:
    return {sample.item for sample in launch.samples if sample.metric is metric}

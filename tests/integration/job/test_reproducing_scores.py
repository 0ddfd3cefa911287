"""A reproduction of a claim that rests on scores takes none of its control's from the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.artifacts.store import ArtifactStore
from experiments.job.context import JobContext
from experiments.job.records import Records
from experiments.job.result import JobResult
from experiments.job.run import run_job
from experiments.job.running_job import LAUNCH_LOGS
from experiments.job.spec import TestJob
from experiments.measurement.evidence import Arm, Metric
from experiments.measurement.judging import Evaluate
from tests.simulated.engine import SimulatedEngine
from tests.simulated.judges import StepsJudge
from tests.simulated.material import SimulatedMaterial
from tests.simulated.specs import FASTER, PLAN, a_test_job

BOTH_PARTS = [Evaluate(), Evaluate(part=1)]

Run = Callable[[TestJob], tuple[JobResult, list[str]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs jobs that share one store; tells the launches of the control that each started, too."""
    (tmp_path / "cache").mkdir()
    folders: list[Path] = []

    def run(spec: TestJob) -> tuple[JobResult, list[str]]:
        folder = tmp_path / str(len(folders))
        folder.mkdir()
        folders.append(folder)
        with ArtifactStore(tmp_path / "artifacts") as store, Records(folder / "records.jsonl") as records:
            context = JobContext(
                folder, Path("simulated"), store, tmp_path / "cache", 2, SimulatedMaterial(), ()
            )
            result = run_job(spec, context, SimulatedEngine(), StepsJudge(BOTH_PARTS), records)
        assert result.failure is None
        return result, sorted(each.stem for each in (folder / LAUNCH_LOGS).glob("*control*"))

    return run


@pytest.mark.parametrize(
    ("metric", "reproduces", "anew"),
    [
        (Metric.NLL_BITS, None, False),
        (Metric.NLL_BITS, 1, True),
        (Metric.STEP_WEIGHT_BYTES, 1, True),
        (Metric.TPOT_MS, 1, False),
    ],
)
def test_a_reproduction_of_a_scored_claim_scores_its_control_anew_in_both_parts(
    run: Run, metric: Metric, reproduces: int | None, anew: bool
) -> None:
    plan = PLAN.model_copy(update={"metric": metric})
    first, started = run(a_test_job(FASTER, plan=plan))
    assert started == ["evaluate-control-0", "evaluate-control-1"]
    again, started_again = run(a_test_job(FASTER, plan=plan, reproduces_experiment_id=reproduces))
    assert started_again == (started if anew else [])
    assert [each.digest for each in again.artifacts] == [each.digest for each in first.artifacts]
    assert all(each.build_s == 0 for each in again.artifacts)
    told, told_again = (
        [each for each in result.launches if each.arm is Arm.CONTROL] for result in (first, again)
    )
    assert [each.samples for each in told] == [each.samples for each in told_again]
    assert ([each.load_s for each in told] != [each.load_s for each in told_again]) is anew

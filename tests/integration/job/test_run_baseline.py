"""A baseline with real processes of the simulated engine: its sweep, what that drops, and what it tells."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from configs.errors import DiskFull
from experiments.job import loads_told
from experiments.job.result import Failure
from experiments.job.versions_here import OWN_PACKAGES
from experiments.measurement.evidence import Metric, Stage
from experiments.measurement.judging import Evaluate
from experiments.space.configuration import Configuration
from tests.integration.job.running import Run, run
from tests.simulated.engine import SimulatedEngine, SimulatedLaunch
from tests.simulated.specs import CONTROL, FASTER, a_baseline_job, a_test_job

__all__ = ["run"]


def test_the_baseline_chooses_the_fastest_that_runs(run: Run):
    broken = {"simulated.tpot_ms": 5.0, "simulated.fails": "generate", "simulated.fails_after": 4}
    illegal = {"simulated.tpot_ms": 1.0, "simulated.fails": "check"}
    slow, fast = {"simulated.tpot_ms": 10.0}, {"simulated.tpot_ms": 8.0}
    result = run(a_baseline_job((slow, illegal, broken, fast)))
    assert result.chosen == fast
    assert result.failure is None
    assert [stage.stage for stage in result.stages] == [
        Stage.STATIC, Stage.SWEEP, Stage.NOISE, Stage.EVALUATE, Stage.PROFILE,
    ]  # fmt: skip
    assert result.stages[0].detail["refused"] == ["The simulated configuration is illegal."]
    noise = [launch for launch in result.launches if launch.stage is Stage.NOISE]
    assert [launch.index for launch in noise] == [0, 1, 2]
    assert {launch.configuration_digest for launch in noise} == {Configuration.of(fast).digest}
    assert [part.part for part in result.profile] == ["layers", "rest"]
    evaluated = [launch for launch in result.launches if launch.stage is Stage.EVALUATE]
    assert evaluated[0].values(Metric.NLL_BITS)


def test_a_sweep_interleaves_its_launches(run: Run):
    sweep = tuple({"simulated.tpot_ms": 10.0 + n} for n in range(3))
    result = run(a_baseline_job(sweep, sweep_blocks=4))
    places = {
        launch.index: [s.position for s in launch.samples if s.metric is Metric.TTFT_MS]
        for launch in result.launches
        if launch.stage is Stage.SWEEP
    }
    assert len({sum(positions) for positions in places.values()}) == 1
    assert len({min(positions) for positions in places.values()}) == 3


def test_what_the_sweep_drops_is_kept_with_its_configuration_and_its_cause(run: Run):
    blamed = {**CONTROL, "simulated.fails": "generate", "simulated.blames": "simulated.fails"}
    at_load = {**CONTROL, "simulated.fails": "load"}
    result = run(a_baseline_job((blamed, CONTROL, at_load)))
    (sweep,) = (each for each in result.stages if each.stage is Stage.SWEEP)
    told = sweep.detail["failed"]
    assert isinstance(told, list)
    found = {
        each["configuration"]["simulated.fails"]: each["blames"] for each in told if isinstance(each, dict)
    }
    assert found == {"generate": {"simulated.fails": None}, "load": {}}
    assert len(told) == 2


def test_what_no_configuration_is_to_blame_for_ends_a_sweep_at_its_first_launch(run: Run):
    class Full(SimulatedEngine):
        asked = 0

        def launch(self, *_: object, **__: object) -> SimulatedLaunch:
            Full.asked += 1
            raise DiskFull("A disk is full.", "Free some.")

    with pytest.raises(DiskFull, match="A disk is full"):
        run(a_baseline_job((CONTROL, FASTER)), engine=Full(), cores=1)
    assert Full.asked == 1


def test_a_baseline_that_can_t_run_at_all_says_why(run: Run):
    result = run(a_baseline_job(({"simulated.tpot_ms": 1.0, "simulated.fails": "load"},)))
    assert result.failure == Failure(
        "crashed", "The simulated process ended: simulated: no memory for the weights."
    )
    assert result.chosen is None


@pytest.mark.parametrize("dies", ["load", "score"])
def test_versions_are_asked_for_where_no_launch_measured_anything_and_so_tells_them(
    run: Run, monkeypatch: pytest.MonkeyPatch, dies: str
):
    asked: list[tuple[object, ...]] = []

    def here(*told: object) -> Mapping[str, str]:
        asked.append(told)
        return {"torch": "2.14.0"}

    monkeypatch.setattr("experiments.job.run.versions_here", here)
    spec = a_baseline_job(({**CONTROL, "simulated.fails": dies},))
    failure = run(spec).failure
    assert failure is not None
    measured = dies == "score"
    assert failure.versions == ({} if measured else {"torch": "2.14.0"})
    assert asked == ([] if measured else [(spec.engine, spec.device, OWN_PACKAGES)])


def records_of(folder: Path) -> list[dict[str, Any]]:
    """Every record of the runs of a folder, in their order."""
    files = sorted(folder.glob("*/records.jsonl"))
    return [json.loads(line) for each in files for line in each.read_text().splitlines()]


def test_while_launches_load_the_job_tells_what_they_do_and_for_how_long(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(loads_told, "TELL_EVERY_S", 0.05)

    class TellsItsLoad(SimulatedEngine):
        def load_phase(self, log: str) -> str:
            return "warming up (1 of 2)" if "ready" in log else "loading weights"

    slow = CONTROL | {"simulated.load_s": 0.5}
    result = run(a_baseline_job((slow, CONTROL)), engine=TellsItsLoad())
    assert result.failure is None
    told = [each["text"] for each in records_of(tmp_path) if each["record"] == "loading"]
    assert any(
        each.startswith("loading, for ") and "loading weights for " in each for each in told if each
    ), told
    assert told[-1] is None
    sweep = [each for each in records_of(tmp_path) if each["record"] in ("loading", "block")]
    first_block = next(place for place, each in enumerate(sweep) if each["record"] == "block")
    assert sweep[first_block - 1] == {**sweep[first_block - 1], "record": "loading", "text": None}


def test_an_engine_that_does_not_tell_how_a_load_gets_on_is_waited_for_in_silence(run: Run, tmp_path: Path):
    run(a_baseline_job((CONTROL | {"simulated.load_s": 0.3},)))
    assert not [each for each in records_of(tmp_path) if each["record"] == "loading"]


def test_the_baseline_s_evaluation_serves_the_tests_that_follow(run: Run):
    run(a_baseline_job((CONTROL,)))
    result = run(a_test_job(), [Evaluate()])
    assert [artifact.build_s for artifact in result.artifacts] == [0.0]

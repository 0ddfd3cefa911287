"""When a job lets its engine begin the processes of its first launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from experiments.engines.kernel_timings import KernelTimings
from experiments.job.device_guard import DeviceGuard
from experiments.measurement.evidence import Json
from experiments.telemetry.occupants import DeviceUse, Occupant
from tests.integration.job.running import Run, run
from tests.recorded.kernel_timings import recorded
from tests.simulated.engine import SimulatedEngine
from tests.simulated.material import SimulatedPruning
from tests.simulated.specs import CONTROL, FASTER, a_baseline_job, a_test_job

__all__ = ["run"]

BUILT = {"simulated.layers": 3}


class Told:
    """What a job did, in order: looked at the device, began, built, loaded, and ended all that was begun."""

    def __init__(self, other: Occupant | None = None) -> None:
        self.acts: list[str] = []
        told = self

        class Engine(SimulatedEngine):
            @contextmanager
            def loading_ahead(self) -> Iterator[SimulatedEngine]:
                yield self
                told.acts.append("end")

            def begin_ahead(self, device: str, folder: Path, cache_dir: Path) -> None:
                assert folder.is_dir()
                assert cache_dir.is_dir()
                told.acts.append(f"begin on {device}")

            def expect(self, launches: int) -> None:
                told.acts.append(f"expect {launches}")

            def launch(self, *args: Any, **named: Any) -> Any:
                told.acts.append("load")
                return super().launch(*args, **named)

        class Pruning(SimulatedPruning):
            def build(self, *args: Any, **named: Any) -> Mapping[str, Json]:
                told.acts.append("build")
                return super().build(*args, **named)

        def look(device: str) -> DeviceUse:
            told.acts.append("look")
            return DeviceUse(0 if other is None else 10**9, 0, () if other is None else (other,))

        self.engine, self.stage = Engine(), Pruning()
        self.seconds = 0.0
        self.guard = DeviceGuard(
            "cuda:0", look=look, xids=lambda device: (), wait=self._wait, clock=lambda: self.seconds
        )

    def _wait(self, waited_s: float) -> None:
        self.seconds += waited_s

    def of(self, run: Run, spec: Any) -> list[str]:
        """The acts of a job; of looks at the device only that there were some first."""
        run(spec, engine=self.engine, guard=self.guard, checkpoint_stages=(self.stage,))
        first = self.acts.index("begin on cpu") if "begin on cpu" in self.acts else 0
        assert not first or "look" in self.acts[:first], "nothing is begun before the device is the job's"
        return [act for act in self.acts if act != "look"]


@pytest.mark.parametrize(("at_once", "launches"), [(None, 2), (1, 1)])
def test_a_test_begins_the_processes_of_its_first_launches_before_it_builds_what_they_load(
    run: Run, at_once: int | None, launches: int
) -> None:
    acts = Told().of(run, a_test_job(FASTER | BUILT, at_once=at_once))
    assert acts[: launches + 1] == ["begin on cpu"] * launches + ["build"]
    assert acts.count("begin on cpu") == launches
    assert acts[launches + 1] == "load"


def test_none_is_begun_for_a_configuration_that_can_not_run(run: Run) -> None:
    assert Told().of(run, a_test_job(FASTER | {"simulated.fails": "check"})) == []


def test_none_is_begun_on_a_device_that_others_use(run: Run) -> None:
    assert Told(Occupant(7, "train.py", 10**9)).of(run, a_test_job(FASTER | BUILT)) == []


def test_a_baseline_begins_none_for_nothing_may_disturb_the_timing_of_its_kernels(run: Run) -> None:
    told = Told()

    def time_kernels(*args: Any) -> KernelTimings:
        told.acts.append("time")
        return recorded()

    told.engine.time_kernels = time_kernels  # type: ignore[attr-defined]
    acts = told.of(run, a_baseline_job((CONTROL, FASTER), kernels=({"quantization.bits": 4},)))
    assert acts[0] == "time"
    assert "begin on cpu" not in acts


def test_a_baseline_expects_its_fresh_launches_while_the_sweep_loads_and_none_after_them(run: Run) -> None:
    job = a_baseline_job((CONTROL, FASTER))
    acts = [act for act in Told().of(run, job) if act.startswith(("expect", "load"))]
    fresh = ["load"] * job.noise_launches
    assert acts == [f"expect {job.noise_launches}", "load", "load", "expect 0", *fresh]


def test_a_baseline_that_loads_one_after_the_other_expects_no_more_than_that(run: Run) -> None:
    acts = Told().of(run, a_baseline_job((CONTROL, FASTER), at_once=1))
    assert not [act for act in acts if act.startswith("expect")]

"""What a job does when something else is on its device, or the device is lost.

The processes are real, of the simulated engine; the driver's answers are invented, and no GPU is asked.
"""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from experiments.artifacts.store import ArtifactStore
from experiments.engines.port import DEVICE_BUSY, DEVICE_LOST, Infeasible
from experiments.job.device_guard import MEMORY_RETURN_LIMIT_S, DeviceGuard
from experiments.job.limits import StageLimits
from experiments.job.open_launch import GUESTS_MAX
from experiments.job.records import Records
from experiments.job.result import HeldMemory
from experiments.job.run import run_job
from experiments.job.spec import Knobs
from experiments.measurement.evidence import Json, Metric, Stage
from experiments.measurement.gpu_block import PUT_OFF_BESIDE, TIMED_AGAIN_BESIDE
from experiments.measurement.judging import Evaluate, MeasureMore, MeasurePair, Step
from experiments.measurement.plan import StoppingPlan
from experiments.own_processes import begun_beside, children
from experiments.space.configuration import Configuration
from experiments.telemetry.occupants import DeviceGone, DeviceUse, Occupant
from tests.integration.job.further import WIDE, SameLaunches, a_test_with
from tests.integration.job.running import Run, a_place, run
from tests.simulated.engine import SimulatedEngine, SimulatedLaunch
from tests.simulated.judges import StepsJudge
from tests.simulated.material import SimulatedPruning
from tests.simulated.specs import CONTROL, FASTER, PLAN, a_baseline_job, a_test_job
from tests.waiting import PATIENCE_S

__all__ = ["run"]

GB = 10**9
OTHER = Occupant(7, "train.py", 30 * GB)


class Shared:
    """Answers of a driver that lists the job's own processes, and `also` from the look `after` on; of what
    launches held so many bytes (`kept`) never come back. `also` goes after `stays` looks, and comes back for
    as many in every `again`, if that is given. Where they `hang`, their processes are listed as long as this
    machine lists them, ended or not. What this process had started before is not listed: the guard would end
    it."""

    def __init__(
        self,
        also: Occupant | None = None,
        after: int = 0,
        kept: int = 0,
        *,
        hang: bool = False,
        stays: int | None = None,
        again: int | None = None,
    ) -> None:
        self.looks, self.also, self.after, self.seconds, self.lost = 0, also, after, 0.0, False
        self.stays, self.again = stays, again
        self.kept, self.last_alone, self.hang = kept, 0, hang
        self.before = children()
        self.up: list[int] = []
        self.guard = DeviceGuard(
            "cuda:0",
            look=self.look,
            xids=lambda device: (),
            wait=self.wait,
            clock=lambda: self.seconds,
        )
        self.alone = self.guard.alone
        self.guard.alone = self.look_beside_a_block  # type: ignore[method-assign]

    def look_beside_a_block(self) -> None:
        self.last_alone = self.looks + 1
        self.alone()

    def look(self, device: str) -> DeviceUse:
        self.looks += 1
        self.up.append(self.guard.up)
        if self.lost:
            raise DeviceGone("GPU is lost")
        listed = begun_beside(self.before) if self.guard.up or self.hang else ()
        own = [Occupant(each.pid, "simulated", GB) for each in listed]
        others = [self.also] if self.also is not None and self._is_there(self.looks - self.after) else []
        kept = self.kept if max(self.up) and not self.guard.up else 0
        return DeviceUse(GB * len(own) + 30 * GB * len(others) + kept, 150 * GB, (*own, *others))

    def _is_there(self, look: int) -> bool:
        if look <= 0 or self.stays is None:
            return look > 0
        return (look if self.again is None else (look - 1) % self.again + 1) <= self.stays

    def wait(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def before() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that this one started before the job."""
    with subprocess.Popen(["sleep", str(2 * PATIENCE_S)]) as process:
        yield process
        process.kill()


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What jobs say in their logs."""
    told: list[str] = []
    monkeypatch.setattr(Records, "note", lambda _records, text: told.append(text))
    return told


def test_nothing_is_launched_beside_somebody_else(run: Run) -> None:
    shared = Shared(OTHER)
    result = run(a_test_job(), guard=shared.guard)
    assert result.failure is not None
    assert result.failure.kind == DEVICE_BUSY
    assert "process 7 (train.py) holds 30.0 GB" in result.failure.cause
    assert result.launches == ()


def test_a_block_beside_somebody_who_came_is_not_kept(run: Run) -> None:
    alone = Shared()
    whole = run(a_test_job(), guard=alone.guard)
    assert whole.failure is None
    last = Shared(OTHER, after=alone.last_alone - 1)  # he is there when the last block has ended
    result = run(a_test_job(), guard=last.guard)
    assert result.failure is not None
    assert result.failure.kind == DEVICE_BUSY

    def blocks(found: object) -> int:
        return sum(len({sample.block for sample in each.samples}) for each in found.launches)  # type: ignore[attr-defined]

    assert blocks(result) == blocks(whole) - 1
    assert last.seconds >= MEMORY_RETURN_LIMIT_S
    assert "1 min after it came while the job measured" in result.failure.cause


@pytest.mark.parametrize(
    ("looks_before", "words", "kept_in", "other"),
    [
        (1, "measured again", TIMED_AGAIN_BESIDE, PUT_OFF_BESIDE),
        (2, "put off", PUT_OFF_BESIDE, TIMED_AGAIN_BESIDE),
    ],
)
def test_a_block_beside_somebody_who_goes_again_is_put_off_or_measured_once_more_and_says_which(
    run: Run, notes: list[str], tmp_path: Path, looks_before: int, words: str, kept_in: str, other: str
) -> None:
    alone = Shared()
    whole = run(a_test_job(), guard=alone.guard)
    guest = Shared(OTHER, after=alone.last_alone - looks_before, stays=3)
    result = run(a_test_job(), guard=guest.guard)
    assert result.failure is None
    assert [len(each.samples) for each in result.launches] == [len(each.samples) for each in whole.launches]
    assert guest.looks > alone.looks
    told = "process 7 (train.py) holds 30.0 GB"
    assert notes == [f"block 1 of control 0: {words}, for something else was on the device: {told}"]
    lines = [line for file in tmp_path.rglob("records.jsonl") for line in file.read_text().splitlines()]
    during = [record["during"] for record in map(json.loads, lines) if record.get("during")]
    assert [each[kept_in] for each in during] == [[told]]
    assert all(other not in each for each in during)


def test_somebody_who_comes_to_every_block_ends_the_job(run: Run, notes: list[str]) -> None:
    alone = Shared()
    run(a_test_job(), guard=alone.guard)
    guest = Shared(OTHER, after=alone.last_alone - 1, stays=1, again=3)
    result = run(a_test_job(), guard=guest.guard)
    assert result.failure is not None
    assert result.failure.kind == DEVICE_BUSY
    assert len([note for note in notes if "measured again" in note]) == GUESTS_MAX


@pytest.mark.parametrize(
    ("looks_before", "failure", "told"), [(1, DEVICE_BUSY, []), (2, None, ["block 1 of control 0: put off"])]
)
def test_where_prefixes_are_kept_a_block_beside_somebody_is_not_sent_again_but_may_be_put_off(
    run: Run, notes: list[str], looks_before: int, failure: str | None, told: list[str]
) -> None:
    cached = {"serving.prefix_caching": "on"}
    alone = Shared()
    run(a_test_job(FASTER | cached, CONTROL | cached), guard=alone.guard)
    guest = Shared(OTHER, after=alone.last_alone - looks_before, stays=3)
    result = run(a_test_job(FASTER | cached, CONTROL | cached), guard=guest.guard)
    assert (None if result.failure is None else result.failure.kind) == failure
    assert [each.partition(",")[0] for each in notes] == told


def test_a_stage_s_limit_ends_the_wait_for_somebody_too(run: Run) -> None:
    alone = Shared()
    run(a_test_job(), guard=alone.guard)
    guest = Shared(OTHER, after=alone.last_alone - 1)
    guest.guard._wait = lambda seconds: time.sleep(0.05)
    result = run(a_test_job(), guard=guest.guard, limits_s={Stage.QUICK: 3.0})
    assert result.failure is not None
    assert result.failure.kind == "timed_out"
    assert "took longer than its limit of 3 s" in result.failure.cause


def test_a_job_counts_the_launches_that_it_has_up(run: Run) -> None:
    shared = Shared()
    steps = [MeasurePair(Stage.QUICK, 1), MeasureMore(Stage.FULL, 1), Evaluate(), MeasurePair(Stage.FULL, 1)]
    assert run(a_test_job(), steps, guard=shared.guard).failure is None
    assert max(shared.up) == 2
    assert shared.guard.up == 0


@pytest.mark.parametrize(
    ("knobs", "failure"),
    [
        ({}, None),
        ({"simulated.fails": "load"}, "crashed"),
        ({"simulated.fails": "generate"}, "crashed"),
        ({"simulated.hangs": "generate"}, "timed_out"),
    ],
)
def test_however_launches_end_what_they_held_is_recorded_and_given_back(
    run: Run, knobs: Knobs, failure: str | None
) -> None:
    shared = Shared()
    result = run(a_test_job(FASTER | knobs), guard=shared.guard, limits_s={Stage.QUICK: 3.0})
    assert (None if result.failure is None else result.failure.kind) == failure
    assert result.memory is not None
    assert (result.memory.before_bytes, result.memory.after_bytes, result.memory.left) == (0, 0, None)
    assert result.memory.most_bytes > 0


def test_memory_that_never_comes_back_is_told_and_the_measurement_stands(run: Run) -> None:
    shared = Shared(kept=5 * GB)
    result = run(a_test_job(), guard=shared.guard)
    assert result.failure is None
    assert len(result.launches) == 2
    assert result.memory is not None
    assert result.memory.after_bytes == 5 * GB
    assert "5.0 GB of cuda:0 that this job's launches held were not given back" in str(result.memory.left)


@pytest.mark.parametrize("hang", [True, False])
def test_what_was_left_behind_has_to_give_its_memory_back(
    run: Run, before: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch, hang: bool
) -> None:
    """A process that ended is the job's as long as nobody has waited for it, and nobody else's; what ran
    before the job goes on."""
    monkeypatch.setattr("experiments.job.run.StageLimits", partial(StageLimits, stuck_after_s=0.05))
    engine, shared = SameLaunches(waits_at=16), Shared(hang=hang)
    steps = [MeasurePair(Stage.QUICK, 1), MeasurePair(Stage.FULL, 1)]
    result = run(a_test_with(WIDE), steps, engine, shared.guard, limits_s={Stage.FURTHER: 1.0})
    assert engine.let_go() == 1
    assert before.poll() is None
    assert result.failure is None, "what is not judged makes no test infeasible"
    assert ("Nothing more could be measured" in str(result.stop_reason)) is hang
    assert len(engine.launched) == (2 if hang else 4)


def test_a_job_that_is_given_up_tells_what_was_held_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.job.run.StageLimits", partial(StageLimits, stuck_after_s=0.05))
    told: list[HeldMemory | None] = []
    given_up = threading.Event()

    class Stuck(SimulatedEngine):
        def check(self, *_: object) -> None:
            assert given_up.wait(PATIENCE_S)

    def abandon(reason: Infeasible) -> None:
        told.append(records.fold.result().memory)
        given_up.set()

    with ArtifactStore(tmp_path / "artifacts") as store, Records(tmp_path / "records.jsonl") as records:
        place = replace(a_place(tmp_path, tmp_path, store), limits_s={Stage.STATIC: 0.05})
        run_job(a_test_job(), place, Stuck(), StepsJudge([]), records, abandon, Shared().guard)
    assert told == [HeldMemory(0, 0, 0, 0.0)]


def test_a_job_on_a_cpu_tells_nothing_of_a_gpu_s_memory(run: Run) -> None:
    assert run(a_test_job()).memory is None


@pytest.mark.parametrize("job", [a_test_job, lambda: a_baseline_job((CONTROL, FASTER))])
def test_a_lost_device_is_told_before_anything_is_checked(run: Run, job: Callable[[], object]) -> None:
    shared = Shared()
    shared.lost = True
    result = run(job(), guard=shared.guard)
    assert result.failure is not None
    assert result.failure.kind == DEVICE_LOST
    assert "nvidia-smi --gpu-reset" in result.failure.cause


@pytest.mark.parametrize("arm", ["control", "candidate"])
@pytest.mark.parametrize("operation", ["load", "generate"])
def test_a_launch_that_dies_with_its_device_blames_no_arm(run: Run, arm: str, operation: str) -> None:
    """Not even a control, whose own failures are told as such."""
    shared = Shared()
    dies = {"simulated.fails": operation}
    control, candidate = (CONTROL | dies, FASTER) if arm == "control" else (CONTROL, FASTER | dies)
    looked = shared.guard.explained

    def lost_by_now(reason: object) -> object:
        shared.lost = True
        return looked(reason)  # type: ignore[arg-type]

    shared.guard.explained = lost_by_now  # type: ignore[method-assign,assignment]
    result = run(a_test_job(candidate, control), guard=shared.guard)
    assert result.failure is not None
    assert result.failure.kind == DEVICE_LOST


class Forgetting(SimulatedEngine):
    """Launches of a configuration end when they are asked a second time what they run, after `then`."""

    def __init__(self, knobs: Knobs, then: Callable[[], None]) -> None:
        self._knobs, self._then = knobs, then
        self.launched: list[SimulatedLaunch] = []

    def launch(self, configuration: Configuration, *args: Any, **more: Any) -> SimulatedLaunch:
        launch = super().launch(configuration, *args, **more)
        self.launched.append(launch)
        if dict(configuration) == self._knobs:
            told = iter([launch.resolved()])

            def resolved() -> Mapping[str, Json]:
                for once in told:
                    return once
                self._then()
                launch.process.kill()
                raise Infeasible("crashed", "The simulated process ended.")

            launch.resolved = resolved  # type: ignore[method-assign]
        return launch


AT_ONCE = 4
"""So that both arms are up while one of them is asked, and a second validation pair too."""

SCORES = PLAN.model_copy(update={"metric": Metric.NLL_BITS})


@pytest.mark.parametrize("arm", ["control", "candidate"])
@pytest.mark.parametrize(
    ("steps", "plan"),
    [
        ([MeasurePair(Stage.QUICK, 1)], PLAN),
        ([MeasurePair(Stage.VALIDATION, 1)], PLAN),
        ([Evaluate()], SCORES),  # the candidate waits, loaded, while the control is scored
    ],
)
@pytest.mark.parametrize("lost", [True, False])
def test_a_launch_that_ends_before_it_tells_what_it_runs_is_told_as_its_arm_or_its_device(
    run: Run, lost: bool, steps: list[Step], plan: StoppingPlan, arm: str
) -> None:
    shared = Shared()
    engine = Forgetting(CONTROL if arm == "control" else FASTER, lambda: setattr(shared, "lost", lost))
    job = a_test_job(FASTER, at_once=AT_ONCE, plan=plan)
    result = run(job, steps, engine, guard=shared.guard, cores=AT_ONCE)
    assert result.failure is not None
    expected = {"control": "control", "candidate": "crashed"}[arm]
    assert result.failure.kind == (DEVICE_LOST if lost else expected)
    assert shared.guard.up == 0
    assert all(each.process.poll() is not None for each in engine.launched)


@pytest.mark.parametrize(("lost", "kind"), [(True, DEVICE_LOST), (False, "crashed")])
def test_a_checkpoint_that_is_not_built_for_its_device_was_lost_blames_no_arm(
    run: Run, lost: bool, kind: str
) -> None:
    shared = Shared()

    class Dying(SimulatedPruning):
        def build(self, *_: object) -> NoReturn:
            shared.lost = lost
            raise Infeasible("crashed", "The process that ranks layers ended.")

    job = a_test_job(FASTER | {"simulated.layers": 2})
    result = run(job, guard=shared.guard, checkpoint_stages=(Dying(),))
    assert result.failure is not None
    assert result.failure.kind == kind
    assert "The process that ranks layers ended." in result.failure.cause

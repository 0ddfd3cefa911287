"""Further workloads are measured in the launches of a test, and nothing that is judged knows of them.

Real processes of the simulated engine, which measures nothing.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from agent.judge.launch_interval import LaunchIntervalJudge
from experiments.engines.port import DEVICE_LOST, Infeasible
from experiments.job.context import DEFAULT_STAGE_LIMITS_S
from experiments.job.device_guard import DeviceGuard
from experiments.job.journal import read_records
from experiments.job.limits import LEFT_BEHIND, TIME_IS_UP, StageLimits
from experiments.job.process import end_given_up
from experiments.job.records import Records
from experiments.job.result import HeldMemory, JobResult, StageRecord
from experiments.job.schedule import seats
from experiments.job.spec import TestJob
from experiments.measurement.evidence import (
    UNMEASURED,
    WORKLOADS,
    Arm,
    Evidence,
    LaunchRecord,
    Metric,
    NoiseProfile,
    Stage,
)
from experiments.measurement.judging import Evaluate, MeasureMore, MeasurePair
from experiments.own_processes import begun_beside, children, runs
from experiments.space.configuration import Configuration
from experiments.telemetry.watching import GpuReading, GpuWatch
from tests.integration.job.further import LONG, WIDE, SameLaunches, a_test_with
from tests.integration.job.running import Run, run
from tests.simulated.specs import CONTROL, FASTER, PLAN, a_baseline_job
from tests.waiting import wait_for

__all__ = ["run"]

IN_TURN = pytest.mark.parametrize("more", [{}, {"at_once": 1}], ids=["side by side", "in turn"])
SLOWER = {"simulated.tpot_ms": 11.0}


def of(result: JobResult, key: str, metric: Metric) -> dict[tuple[str, int], int]:
    """How many samples of a workload each launch gave, by arm and index."""
    found = {}
    for each in result.further:
        count = sum(s.item.startswith(f"{key}: ") for s in each.of(metric))
        if count:
            found[each.arm.value, each.index] = count
    return found


@IN_TURN
def test_each_launch_is_asked_for_them_once_in_both_arms(run: Run, more: dict[str, int]) -> None:
    steps = [MeasurePair(Stage.QUICK, 2), Evaluate(), MeasurePair(Stage.FULL, 2)]
    result = run(a_test_with(WIDE, LONG, **more), steps, SameLaunches())
    assert result.failure is None
    launches = [(arm, index) for index in (0, 1) for arm in ("candidate", "control")]
    assert of(result, WIDE.key, Metric.E2EL_MS) == dict.fromkeys(launches, 2 * 16)
    assert of(result, LONG.key, Metric.E2EL_MS) == dict.fromkeys(launches, 3)
    assert of(result, WIDE.key, Metric.OUTPUT_TOKENS_PER_S) == dict.fromkeys(launches, 2)
    assert {each.stage for each in result.further} == {Stage.FURTHER}
    told = [each for each in result.stages if each.stage is Stage.FURTHER]
    assert [each.outcome for each in told] == ["done"] * len(told)
    assert [each["concurrency"] for each in told[0].detail[WORKLOADS]] == [16, 1]  # type: ignore[index,union-attr]


@IN_TURN
def test_both_arms_get_the_same_prompts_and_none_of_a_judged_block(run: Run, more: dict[str, int]) -> None:
    result = run(a_test_with(WIDE, LONG, **more), [MeasurePair(Stage.QUICK, 2)], SameLaunches())
    one, two = ([s.item for s in each.of(Metric.TTFT_MS)] for each in result.further)
    assert sorted(one) == sorted(two)
    assert len(set(one)) == len(one)
    judged = {s.item for each in result.launches for s in each.samples}
    assert not judged & {item.partition(": ")[2] for item in one}


def test_no_judged_block_comes_after_them_in_a_launch(run: Run) -> None:
    engine = SameLaunches()
    steps = [MeasurePair(Stage.QUICK, 2), MeasureMore(Stage.FULL, 3), Evaluate(), MeasurePair(Stage.FULL, 2)]
    run(a_test_with(WIDE), steps, engine)
    places = dict.fromkeys(place for place, _, _ in engine.asked)
    timed = [place for place in places if place.startswith(("quick", "full"))]
    assert len(timed) == 4
    for place in timed:
        at_once = [concurrency for asked, concurrency, _ in engine.asked if asked == place]
        first = at_once.index(16)
        assert set(at_once[:first]) == {1}
        assert set(at_once[first:-1]) == {16}
        last = [asked for asked in engine.asked if asked[0] == place][-1]
        assert last == (place, 1, "warm-up"), "what is scored next runs as what was judged"
    assert len([each for each in engine.asked if each[0] == timed[0] and each[1] == 1]) == 1 + 2 + 3 + 1


def judged(
    run: Run, spec: TestJob, engine: SameLaunches | None = None, **context: object
) -> tuple[object, ...]:
    """The seal, what the judge saw, and what it said of it, without what depends on the clock."""
    result = run(spec, LaunchIntervalJudge(), engine or SameLaunches(), **context)
    launches = tuple(replace(each, environment={}) for each in result.launches)
    control, candidate = Configuration.of(spec.control), Configuration.of(spec.candidate)
    evidence = Evidence(
        launches=result.launches,
        noise=NoiseProfile("desk/cpu", spec.plan.metric, 0, 0, None),
        changes=control.changes_to(candidate),
        failure=None if result.failure is None else result.failure.cause,
    )
    verdict = LaunchIntervalJudge().verdict(spec.plan, evidence)
    return spec.preregistration_digest, launches, verdict.outcome, verdict, stopped(result), result.failure


def stopped(result: JobResult) -> str:
    """Why the judge stopped, without the seconds on the clock that it tells."""
    assert result.stop_reason is not None
    return result.stop_reason.partition("; ended after ")[0]


@IN_TURN
@pytest.mark.parametrize("candidate", [FASTER, SLOWER], ids=["faster", "slower"])
def test_the_seal_the_evidence_and_the_verdict_are_the_same_with_and_without(
    run: Run, candidate: dict[str, float], more: dict[str, int]
) -> None:
    asks = {"candidate": candidate, "judge_version": LaunchIntervalJudge.version, **more}
    run(a_baseline_job((CONTROL,)), engine=SameLaunches())  # the reference's scores are kept for both
    without, with_them = judged(run, a_test_with(**asks)), judged(run, a_test_with(WIDE, LONG, **asks))
    assert len(without[1]) > 2, "launches were judged"  # type: ignore[arg-type]
    assert without == with_them


@IN_TURN
def test_a_launch_that_dies_of_one_is_told_and_the_verdict_is_the_same(
    run: Run, more: dict[str, int]
) -> None:
    run(a_baseline_job((CONTROL,)), engine=SameLaunches())
    without = judged(run, a_test_with(**more))
    assert without == judged(run, a_test_with(LONG, WIDE, **more), SameLaunches(dies_at=16))


def test_what_died_of_one_is_asked_of_it_no_more_and_what_needs_it_opens_a_fresh_one(run: Run) -> None:
    engine = SameLaunches(dies_at=16)
    steps = [MeasurePair(Stage.QUICK, 2), Evaluate(), MeasurePair(Stage.FULL, 2)]
    result = run(a_test_with(WIDE, LONG), steps, engine)
    assert result.failure is None
    first, second = (each for each in result.stages if each.stage is Stage.FURTHER)
    cause = "2.0 GiB were missing for the cache."
    assert first.detail[UNMEASURED] == [
        {"arm": "candidate", "workload": WIDE.key, "launch": 0, "cause": cause},
        {"arm": "candidate", "workload": LONG.key, "launch": 0, "cause": "its launch was ended before"},
    ]
    assert second.detail[UNMEASURED] == []
    assert of(result, LONG.key, Metric.E2EL_MS) == {("control", 1): 3, ("candidate", 1): 3}
    assert any(each.startswith("evaluate-candidate") for each in engine.launched)
    assert any(each.stage is Stage.EVALUATE and each.arm is Arm.CANDIDATE for each in result.launches)


def test_a_configuration_that_serves_fewer_sequences_is_told_and_not_asked(run: Run) -> None:
    fewer = FASTER | {"serving.max_sequences": 8}
    engine = SameLaunches()
    result = run(a_test_with(WIDE, LONG, candidate=fewer), [MeasurePair(Stage.QUICK, 2)], engine)
    told = next(each for each in result.stages if each.stage is Stage.FURTHER)
    (failed,) = told.detail[UNMEASURED]  # type: ignore[misc]
    assert failed["cause"] == "serving.max_sequences is 8, and 16 requests at once are asked for."  # type: ignore[index,call-overload]
    assert 16 not in {concurrency for _, concurrency, _ in engine.asked}
    assert len(of(result, LONG.key, Metric.E2EL_MS)) == 2


STEPS_OF_FRESH = [MeasurePair(Stage.VALIDATION, 2), MeasurePair(Stage.VALIDATION, 2), Evaluate()]
LIMITS_S = {**DEFAULT_STAGE_LIMITS_S, Stage.FURTHER: 1.0}
TOO_LONG = "The stage further took longer than its limit of 1 s."


def test_they_may_take_as_long_as_their_stage_and_then_the_test_goes_on(run: Run) -> None:
    spec = a_test_with(WIDE, LONG, at_once=4)
    result = run(spec, STEPS_OF_FRESH, SameLaunches(hangs_at=16), cores=4, limits_s=LIMITS_S)
    assert result.failure is None
    assert [each.index for each in result.launches if each.stage is Stage.VALIDATION] == [0, 0, 1, 1]
    first, second = (each for each in result.stages if each.stage is Stage.FURTHER)
    assert (first.outcome, first.detail["cause"]) == ("timed_out", TOO_LONG)
    assert first.detail[UNMEASURED] == [
        {"arm": "candidate", "workload": WIDE.key, "launch": 0, "cause": TOO_LONG},
        {"arm": "candidate", "workload": LONG.key, "launch": 0, "cause": "its launch was ended before"},
    ]
    assert (second.outcome, second.detail[UNMEASURED]) == ("done", [])
    assert of(result, WIDE.key, Metric.E2EL_MS).get(("candidate", 1)) is None, "it is asked no more"
    assert of(result, LONG.key, Metric.E2EL_MS) == {("control", 1): 3, ("candidate", 1): 3}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> list[Infeasible]:
    """Jobs give a stage up 50 ms after its processes were killed; here is why, of those that were."""
    given_up: list[Infeasible] = []

    def limits(limits_s: Mapping[Stage, float], _: object, asked: Callable[[], str | None]) -> StageLimits:
        return StageLimits(limits_s, given_up.append, stuck_after_s=0.05, asked=asked)

    monkeypatch.setattr("experiments.job.run.StageLimits", limits)
    return given_up


@IN_TURN
def test_one_that_hangs_though_its_processes_are_killed_costs_itself_alone(
    run: Run, impatient: list[Infeasible], more: dict[str, int]
) -> None:
    engine = SameLaunches(waits_at=16)
    result = run(a_test_with(LONG, WIDE, **more), STEPS_OF_FRESH, engine, limits_s=LIMITS_S)
    assert engine.let_go() == 1
    assert impatient == []
    assert result.failure is None
    assert [each.index for each in result.launches if each.stage is Stage.VALIDATION] == [0, 0, 1, 1]
    told = [each for each in result.stages if each.stage is Stage.FURTHER]
    assert [each.detail[UNMEASURED] for each in told if each.outcome == "timed_out"] == [
        [{"arm": "candidate", "workload": WIDE.key, "launch": 0, "cause": TOO_LONG}]
    ]
    assert ("candidate", 1) in of(result, LONG.key, Metric.E2EL_MS), "the others are measured"
    assert ("candidate", 0) not in of(result, WIDE.key, Metric.E2EL_MS), "what was left records nothing"


@pytest.fixture
def unending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes outlive what ends them, as one does that hangs in a driver."""
    monkeypatch.setattr("experiments.job.limits.GONE_WITHIN_S", 0.2)
    monkeypatch.setattr(psutil.Process, "kill", lambda _: None)


def causes(result: JobResult) -> list[str]:
    """Why further workloads were not measured, in the order in which that was told."""
    told = [each.detail[UNMEASURED] for each in result.stages if each.stage is Stage.FURTHER]
    return [str(one["cause"]) for of_stage in told for one in of_stage]  # type: ignore[union-attr,index,call-overload]


@pytest.mark.usefixtures("unending")
def test_nothing_is_loaded_beside_a_process_that_outlives_its_end_and_the_job_ends_and_says_so(
    run: Run, impatient: list[Infeasible]
) -> None:
    engine = SameLaunches(waits_at=16)
    result = run(a_test_with(WIDE), STEPS_OF_FRESH, engine, limits_s=LIMITS_S)
    assert engine.let_go() == 1
    assert [each.kind for each in impatient] == [LEFT_BEHIND]
    assert sorted(engine.launched) == ["validation-candidate-0", "validation-control-0"]
    assert result.failure is None, "what is not judged makes no test infeasible"
    assert result.stop_reason is not None
    assert result.stop_reason.startswith("Nothing more could be measured after a further workload")
    assert "could not be ended, and nothing is loaded beside" in result.stop_reason
    (cause,) = causes(result)
    assert cause.startswith(f"{TOO_LONG} Its process")
    assert {each.stage for each in result.launches} == {Stage.VALIDATION}
    assert sorted(each.arm for each in result.launches) == sorted(Arm), "what was measured before stands"


@pytest.mark.usefixtures("unending")
@IN_TURN
def test_it_costs_itself_alone_where_all_that_is_judged_was_measured(
    run: Run, impatient: list[Infeasible], more: dict[str, int]
) -> None:
    steps = [MeasurePair(Stage.QUICK, 2)]
    without = run(a_test_with(**more), steps, SameLaunches())
    engine = SameLaunches(waits_at=16)
    result = run(a_test_with(WIDE, **more), steps, engine, limits_s=LIMITS_S)
    assert engine.let_go() == 1
    assert (result.failure, result.stop_reason) == (None, without.stop_reason)
    (cause,) = causes(result)
    assert "could not be ended" in cause
    timed = [[(each.arm, each.samples) for each in told.launches] for told in (result, without)]
    assert timed[0] == timed[1]


@pytest.mark.usefixtures("unending")
def test_of_launches_in_turn_a_pair_whose_second_one_was_not_measured_is_left_out(
    run: Run, impatient: list[Infeasible]
) -> None:
    spec = a_test_with(WIDE, at_once=1, seed=1)
    assert seats(spec.seed, 0)[0] is Arm.CANDIDATE
    engine = SameLaunches(waits_at=16)
    result = run(spec, [MeasurePair(Stage.QUICK, 2)], engine, limits_s=LIMITS_S)
    assert engine.let_go() == 1
    assert (result.failure, result.launches) == (None, ())
    assert str(result.stop_reason).startswith("Nothing more could be measured after a further workload")
    assert engine.launched == ["quick-candidate-0"]


@pytest.mark.parametrize(
    ("kind", "failed"), [(LEFT_BEHIND, None), (TIME_IS_UP, None), ("timed_out", "timed_out")]
)
def test_a_job_that_is_given_up_for_it_ends_without_a_failure(
    tmp_path: Path, kind: str, failed: str | None
) -> None:
    with Records(tmp_path / "records.jsonl") as records:
        records.stopped("Nothing more could be measured.")
        end_given_up(records, Infeasible(kind, "It was given up."))
    result = read_records(tmp_path / "records.jsonl")
    assert result is not None, "it came to its end"
    assert result.stop_reason == "Nothing more could be measured."
    assert (None if result.failure is None else result.failure.kind) == failed


class Held(DeviceGuard):
    """A GPU that does not get back what launches held, or is lost."""

    def __init__(self, held: HeldMemory | None, lost: Infeasible | None = None) -> None:
        super().__init__("cpu")
        self._held, self._lost = held, lost

    def returned(self, limit_s: float = 0.0) -> HeldMemory | None:
        return self._held

    def explained(self, reason: Infeasible) -> Infeasible:
        return self._lost or reason


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (
            HeldMemory(0, 9, 9, 20.0, "9.0 GB of cuda:0 were not given back."),
            "9.0 GB of cuda:0 were not given",
        ),
        (HeldMemory(0, 9, None, 20.0), "The driver does not tell whether"),
    ],
    ids=["held", "not told"],
)
def test_nothing_is_loaded_beside_memory_that_is_not_given_back(
    run: Run, impatient: list[Infeasible], held: HeldMemory, told: str
) -> None:
    engine = SameLaunches(waits_at=16)
    result = run(a_test_with(WIDE), STEPS_OF_FRESH, engine, Held(held), limits_s=LIMITS_S)
    assert engine.let_go() == 1
    assert result.failure is None
    assert told in str(result.stop_reason)
    assert told in causes(result)[0]
    assert sorted(engine.launched) == ["validation-candidate-0", "validation-control-0"]


def test_a_lost_device_is_told_as_such_where_something_was_still_to_be_measured(
    run: Run, impatient: list[Infeasible]
) -> None:
    """So its hypothesis waits again, and the campaign leaves the device out."""
    lost = Infeasible(DEVICE_LOST, "cuda:0 is lost.")
    for steps, kind in ((STEPS_OF_FRESH, DEVICE_LOST), ([MeasurePair(Stage.QUICK, 2)], None)):
        engine = SameLaunches(waits_at=16)
        guard = Held(HeldMemory(0, 9, None, 20.0), lost)
        result = run(a_test_with(WIDE), steps, engine, guard, limits_s=LIMITS_S)
        assert engine.let_go() == 1
        assert (None if result.failure is None else result.failure.kind) == kind


def test_no_gpu_is_read_for_what_was_left_beside_later_blocks(
    run: Run, impatient: list[Infeasible], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, let_go = SameLaunches(waits_at=16), SameLaunches.let_go
    read, later = list[str](), list[list[str]]()

    def reading() -> GpuReading:
        read.append(threading.current_thread().name)
        return GpuReading(float(len(read)))

    def readers() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each.name.startswith("GPU readings")]

    def go_on() -> int:
        """The next pair is asked for something first."""
        if not later:
            later.append([each.name for each in readers()])
        return let_go(engine)

    monkeypatch.setattr(engine, "let_go", go_on)
    result = run(
        a_test_with(WIDE),
        STEPS_OF_FRESH,
        engine,
        limits_s=LIMITS_S,
        gpu_watch=lambda: GpuWatch(reading, 0.01),
    )
    assert result.failure is None
    assert engine.let_go() == 1
    assert any(name.startswith("GPU readings") for name in read)
    assert later == [[]]


def test_the_verdict_is_the_same_where_one_hangs_so(run: Run, impatient: list[Infeasible]) -> None:
    run(a_baseline_job((CONTROL,)), engine=SameLaunches())
    without = judged(run, a_test_with())
    engine = SameLaunches(waits_at=16)
    assert without == judged(run, a_test_with(WIDE), engine, limits_s=LIMITS_S)
    assert engine.let_go() == 1
    assert impatient == []


@pytest.mark.parametrize("waits_in", ["end", "answer"])
def test_a_launch_that_was_ended_before_it_is_left_is_counted_once(
    run: Run, impatient: list[Infeasible], monkeypatch: pytest.MonkeyPatch, waits_in: str
) -> None:
    guard, up = DeviceGuard("cpu"), list[int]()
    monkeypatch.setattr(guard, "before_launches", lambda: up.append(guard.up))
    engine = SameLaunches(dies_at=16, waits_after_death=waits_in)
    result = run(a_test_with(WIDE), STEPS_OF_FRESH, engine, guard, limits_s=LIMITS_S)
    assert engine.let_go() == 1
    assert result.failure is None
    assert Stage.FURTHER in {each.stage for each in result.stages if each.outcome == "timed_out"}
    assert set(up) <= {0, 1}
    assert guard.up == 0


def test_a_launch_whose_thread_is_gone_as_it_is_left_is_closed(
    run: Run, impatient: list[Infeasible], monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = StageLimits.apart

    def late(limits: StageLimits, work: Callable[[], None]) -> bool:
        apart(limits, work)
        limits._expired = Infeasible("timed_out", TOO_LONG)  # as its last request was answered
        return False

    monkeypatch.setattr(StageLimits, "apart", late)
    guard = DeviceGuard("cpu")
    result = run(a_test_with(WIDE), [MeasurePair(Stage.VALIDATION, 2)], SameLaunches(), guard)
    assert (result.failure, guard.up) == (None, 0)


def test_what_interrupts_the_job_leaves_nobody_measuring(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, as Python tells it: in the main thread, which waits for the one that measures."""
    engine, told, before = SameLaunches(waits_at=16), Records.stage, children()
    main = threading.main_thread().ident
    assert main is not None
    monkeypatch.setattr(engine, "waits", lambda: signal.pthread_kill(main, signal.SIGINT))
    gone_on = list[object]()

    def tell(records: Records, stage: StageRecord) -> None:
        told(records, stage)
        if stage.stage is Stage.FURTHER:  # the first thing that comes of an interrupt
            wait_for(lambda: not any(runs(each) for each in begun_beside(before)), 10)
            asked, measured = list(engine.asked), records.fold.result().further
            assert engine.let_go() == 1
            gone_on.extend([engine.asked == asked, records.fold.result().further == measured])

    monkeypatch.setattr(Records, "stage", tell)
    with pytest.raises(KeyboardInterrupt):
        run(a_test_with(WIDE, LONG), STEPS_OF_FRESH, engine)
    assert gone_on == [True, True]


def test_a_test_with_a_limit_of_its_own_measures_none(run: Run) -> None:
    result = run(a_test_with(WIDE, within_s=60.0), [MeasurePair(Stage.QUICK, 2)])
    assert (result.failure, result.further) == (None, ())
    assert Stage.FURTHER not in {each.stage for each in result.stages}


def test_a_test_without_any_is_stored_and_run_as_before(run: Run) -> None:
    result = run(a_test_with(), [MeasurePair(Stage.QUICK, 2)])
    assert result.further == ()
    assert Stage.FURTHER not in {each.stage for each in result.stages}
    stored = json.loads(a_test_with().model_dump_json())
    del stored["further"]
    assert TestJob.model_validate(stored) == a_test_with()
    assert a_test_with(WIDE).plan == PLAN


def test_the_launches_of_a_result_hold_no_sample_of_them(run: Run) -> None:
    result = run(a_test_with(WIDE, LONG), [MeasurePair(Stage.QUICK, 2), Evaluate()])
    launches: list[LaunchRecord] = list(result.launches)
    assert Stage.FURTHER not in {each.stage for each in launches}
    assert not any(s.item.startswith((WIDE.key, LONG.key)) for each in launches for s in each.samples)

"""How many launches of a job are up at once: in turn where memory has room for one, validation pairs together
where it has room for more. Real processes of the simulated engine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from experiments.engines.port import GenerationTrace, Infeasible, Launch
from experiments.job.limits import StageLimits, time_is_up
from experiments.job.records import Records
from experiments.measurement.evidence import NOT_UP, Arm, Metric, Stage
from experiments.measurement.judging import Evaluate, MeasureMore, MeasurePair, Screen, Step
from experiments.space.configuration import KnobValue
from tests.integration.job.counting_engine import CountingEngine, order
from tests.integration.job.running import Run, run
from tests.simulated.specs import CONTROL, FASTER, PLAN, a_baseline_job, a_test_job
from tests.waiting import PATIENCE_S, wait_for

__all__ = ["run"]

WHOLE: Sequence[Step] = [
    MeasurePair(Stage.QUICK, 2),
    Evaluate(),
    MeasurePair(Stage.FULL, 2),
    MeasurePair(Stage.VALIDATION, 2),
    MeasurePair(Stage.VALIDATION, 2),
]


class LaterEngine(CountingEngine):
    """Begins the launches of `later` once one of the other arm is up."""

    def __init__(self, later: Arm, room: int) -> None:
        super().__init__(room)
        self._later = later
        self._other_up = threading.Event()

    def launch(self, *asked: object, **more: object) -> Launch:
        """As the engine."""
        log = next(each for each in asked if isinstance(each, Path) and each.suffix == ".log")
        if self._later.value in log.stem:
            assert self._other_up.wait(PATIENCE_S)
            return super().launch(*asked, **more)
        launch = super().launch(*asked, **more)
        self._other_up.set()
        return launch


@pytest.mark.parametrize("steps", [WHOLE, [Screen(), *WHOLE[2:]], [MeasurePair(Stage.QUICK, 2), Evaluate(1)]])
def test_in_turn_one_launch_is_up_at_a_time_through_every_step(run: Run, steps: Sequence[Step]) -> None:
    engine = CountingEngine()
    result = run(a_test_job(at_once=1), steps, engine)
    assert result.failure is None
    assert set(engine.up) == {1}


def test_the_launches_of_a_pair_in_turn_are_neighbours_and_alternate_in_who_is_first(run: Run) -> None:
    steps = [MeasurePair(Stage.QUICK, 2), MeasurePair(Stage.FULL, 2), MeasurePair(Stage.FULL, 2)]
    result = run(a_test_job(at_once=1), steps)
    assert [(index, arm) for _, index, arm in order(result)] == [
        (0, "control"), (0, "candidate"), (1, "candidate"), (1, "control"), (2, "control"), (2, "candidate"),
    ]  # fmt: skip
    first, second = result.launches[:2]
    assert {s.position for s in first.samples} == {0, 1}
    assert {s.position for s in second.samples} == {2, 3}
    items = [[s.item for s in each.samples if s.metric is Metric.TPOT_MS] for each in (first, second)]
    assert items[0] == items[1]


def test_the_second_launch_of_a_pair_in_turn_is_evaluated_without_another_load(run: Run) -> None:
    run(a_baseline_job((CONTROL,), at_once=1))
    engine = CountingEngine()
    run(a_test_job(at_once=1), [MeasurePair(Stage.QUICK, 2), Evaluate()], engine)
    assert len(engine.up) == 2


def test_measuring_more_in_turn_takes_a_fresh_pair(run: Run) -> None:
    result = run(a_test_job(at_once=1), [MeasurePair(Stage.QUICK, 2), MeasureMore(Stage.FULL, 3)])
    assert [index for _, index, _ in order(result)] == [0, 0, 1, 1]


def test_a_candidate_that_does_not_load_in_turn_is_infeasible_and_a_control_is_not_its_fault(
    run: Run,
) -> None:
    dies = {"simulated.tpot_ms": 7.0, "simulated.fails": "load"}
    failed = run(a_test_job(dies, at_once=1)).failure
    assert failed is not None
    assert failed.kind == "crashed"
    failed = run(a_test_job(FASTER, dies, at_once=1)).failure
    assert failed is not None
    assert failed.kind == "control"


def test_a_baseline_in_turn_sweeps_measures_noise_and_evaluates_one_launch_at_a_time(run: Run) -> None:
    engine = CountingEngine()
    slow, broken = {"simulated.tpot_ms": 12.0}, {"simulated.tpot_ms": 1.0, "simulated.fails": "load"}
    result = run(a_baseline_job((slow, broken, FASTER), at_once=1), engine=engine)
    assert result.chosen == FASTER
    assert set(engine.up) == {1}
    assert [each.index for each in result.launches if each.stage is Stage.NOISE] == [0, 1, 2]
    assert [each.stage for each in result.stages][-2:] == [Stage.EVALUATE, Stage.PROFILE]
    assert len(engine.up) == 2 + 3, "what was evaluated and profiled is the last launch that was timed"


def test_a_baseline_of_which_nothing_runs_in_turn_says_why(run: Run) -> None:
    broken = {"simulated.tpot_ms": 1.0, "simulated.fails": "load"}
    failed = run(a_baseline_job((broken, broken | {"simulated.bits": 2.0}), at_once=1)).failure
    assert failed is not None
    assert failed.kind == "crashed"


def test_validation_pairs_are_loaded_together_where_there_is_room_and_timed_as_any_others(run: Run) -> None:
    engine = CountingEngine()
    result = run(a_test_job(at_once=4), WHOLE, engine, cores=4)
    assert max(engine.up) == 4
    timed = [each for each in order(result) if each[0] is not Stage.EVALUATE]
    assert [(stage, index) for stage, index, _ in timed[::2]] == [
        (Stage.QUICK, 0), (Stage.FULL, 1), (Stage.VALIDATION, 2), (Stage.VALIDATION, 3),
    ]  # fmt: skip
    assert [arm for _, _, arm in timed] == ["control", "candidate", "candidate", "control"] * 2
    assert all(each.values(Metric.TPOT_MS) for each in result.launches if each.stage is Stage.VALIDATION)


@pytest.mark.parametrize(("at_once", "cores"), [(3, 8), (8, 2), (None, 8)])
def test_without_room_or_cores_for_it_no_pair_is_loaded_ahead(
    run: Run, at_once: int | None, cores: int
) -> None:
    engine = CountingEngine()
    run(a_test_job(at_once=at_once), WHOLE, engine, cores=cores)
    assert max(engine.up) == 2


def test_a_pair_loaded_ahead_that_is_not_asked_for_is_ended_and_recorded_nowhere(run: Run) -> None:
    result = run(a_test_job(at_once=4), [MeasurePair(Stage.VALIDATION, 2)], cores=4)
    assert [each.index for each in result.launches] == [0, 0]


def test_pairs_that_have_no_room_beside_each_other_are_loaded_one_after_the_other(run: Run) -> None:
    engine = CountingEngine(room=2)
    steps = [MeasurePair(Stage.VALIDATION, 2), MeasurePair(Stage.VALIDATION, 2)]
    result = run(a_test_job(at_once=4), steps, engine, cores=4)
    assert result.failure is None
    assert [each.index for each in result.launches] == [0, 0, 1, 1]
    assert all(each.values(Metric.TPOT_MS) for each in result.launches)


class FailingOnce(CountingEngine):
    """The launches of `broken`, by the names of their logs, do not come up at first, nor beside more than
    `beside` others, for a reason of this `kind`; with `works_beside` none can be asked beside more than that.

    Tells by name what was loaded, and with how many others alive.
    """

    def __init__(
        self,
        broken: set[str],
        beside: int = 0,
        kind: str = "out_of_memory",
        works_beside: float = float("inf"),
    ) -> None:
        super().__init__()
        self.loaded: list[tuple[str, int]] = []
        self._broken, self._beside, self._kind, self._works_beside = broken, beside, kind, works_beside

    def alive(self) -> set[str]:
        """The names of the launches that are up."""
        named = zip(self._launches, self.loaded, strict=True)
        return {name for each, (name, _) in named if each.process.poll() is None}  # type: ignore[attr-defined]

    def launch(self, *asked: object, **more: object) -> Launch:
        """As the engine."""
        name = next(each.stem for each in asked if isinstance(each, Path) and each.suffix == ".log")
        name = name.removeprefix("validation-")
        with self._counting:
            return self._launch(name, *asked, **more)

    def _launch(self, name: str, *asked: object, **more: object) -> Launch:
        first = name not in [each for each, _ in self.loaded]
        launch: Launch = super().launch(*asked, **more)
        beside = self.up[-1] - 1
        self.loaded.append((name, beside))
        if name in self._broken and (first or beside > self._beside):
            launch.close()
            raise Infeasible(self._kind, "no room beside the others")
        serve = launch.serve

        def short(*requests: Any) -> list[GenerationTrace]:
            if len(self.alive()) - 1 > self._works_beside:
                raise Infeasible("out_of_memory", "no room to work beside the others")
            return serve(*requests)

        launch.serve = short  # type: ignore[method-assign]
        return launch


THREE_PAIRS = [MeasurePair(Stage.VALIDATION, 2)] * 3
THREE_AT_ONCE = PLAN.model_copy(update={"validation_pairs": 3})


def not_up(launch: str, kind: str) -> str:
    return (
        f"{launch} did not come up beside others ({kind}), and its pair is loaded again once asked for: "
        "no room beside the others"
    )


PAIR_NAMES = [f"{arm}-{index}" for index in range(3) for arm in ("candidate", "control")]


def test_of_pairs_loaded_together_the_ones_that_came_up_are_kept_and_only_the_other_is_loaded_again(
    run: Run,
) -> None:
    engine = FailingOnce({"candidate-1"}, beside=3, kind="crashed")
    result = run(a_test_job(at_once=6, plan=THREE_AT_ONCE), THREE_PAIRS, engine, cores=6)
    assert result.failure is None
    assert [each.index for each in result.launches] == [0, 0, 1, 1, 2, 2]
    assert all(each.values(Metric.TPOT_MS) for each in result.launches)
    assert sorted(name for name, _ in engine.loaded) == sorted([*PAIR_NAMES, "candidate-1", "control-1"])


def test_a_pair_that_does_not_come_up_beside_one_that_waits_is_loaded_by_itself(run: Run) -> None:
    engine = FailingOnce({"candidate-1"}, beside=1, kind="crashed")
    result = run(a_test_job(at_once=6, plan=THREE_AT_ONCE), THREE_PAIRS, engine, cores=6)
    assert result.failure is None
    assert [each.index for each in result.launches] == [0, 0, 1, 1, 2, 2]
    assert all(beside <= 1 for _, beside in engine.loaded[-4:]), "the last two pairs have the room alone"


def test_where_memory_was_short_for_one_what_is_measured_then_has_the_room_of_those_that_waited(
    run: Run,
) -> None:
    engine = FailingOnce({"candidate-1"}, works_beside=1)
    result = run(a_test_job(at_once=6, plan=THREE_AT_ONCE), THREE_PAIRS, engine, cores=6)
    assert result.failure is None
    assert [each.index for each in result.launches] == [0, 0, 1, 1, 2, 2]
    assert all(each.values(Metric.TPOT_MS) for each in result.launches)
    again = [name for name in PAIR_NAMES if not name.endswith("-0")]
    assert sorted(name for name, _ in engine.loaded) == sorted([*PAIR_NAMES, *again])


def test_where_the_pair_that_is_asked_for_does_not_come_up_it_has_the_room_of_all_others(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(Records, "note", lambda _, text: told.append(text))
    engine = FailingOnce({"control-0"}, beside=1)
    result = run(a_test_job(at_once=6, plan=THREE_AT_ONCE), THREE_PAIRS, engine, cores=6)
    assert result.failure is None
    assert [each.index for each in result.launches] == [0, 0, 1, 1, 2, 2]
    assert max(beside for _, beside in engine.loaded[6:]) == 1, "nothing more is loaded at once"
    assert told == [not_up("control 0", "out_of_memory")]


@pytest.mark.parametrize("kind", ["crashed", "out_of_memory", "timed_out", "unsupported"])
@pytest.mark.parametrize("steps", [1, 3], ids=["not asked for later", "asked for later"])
def test_a_launch_that_did_not_come_up_beside_others_is_told_with_its_kind_by_the_stage(
    run: Run, kind: str, steps: int
) -> None:
    engine = FailingOnce({"candidate-1"}, beside=3, kind=kind)
    result = run(a_test_job(at_once=6, plan=THREE_AT_ONCE), THREE_PAIRS[:steps], engine, cores=6)
    assert result.failure is None
    details = [each.detail for each in result.stages if each.stage is Stage.VALIDATION]
    assert details == [{NOT_UP: [not_up("candidate 1", kind)]}, *[{}] * (steps - 1)]


def test_a_launch_that_comes_up_at_no_time_is_loaded_twice_and_both_are_told(run: Run) -> None:
    engine = FailingOnce({"candidate-0"}, beside=-1, kind="crashed")
    result = run(a_test_job(at_once=6, plan=THREE_AT_ONCE), THREE_PAIRS, engine, cores=6)
    assert result.failure is not None
    assert result.failure.kind == "crashed"
    assert [name for name, _ in engine.loaded].count("candidate-0") == 2
    assert result.stages[-1].outcome == "failed"
    assert result.stages[-1].detail == {
        NOT_UP: [not_up("candidate 0", "crashed")], "kind": "crashed", "cause": "no room beside the others",
    }  # fmt: skip


def test_what_did_not_come_up_whole_is_ended_before_it_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FailingOnce({"candidate-1"}, beside=3, kind="crashed")
    up: list[set[str]] = []
    monkeypatch.setattr(Records, "note", lambda *_: up.append(engine.alive()))
    run(a_test_job(at_once=6, plan=THREE_AT_ONCE), THREE_PAIRS, engine, cores=6)
    assert up == [{name for name in PAIR_NAMES if not name.endswith("-1")}]


def test_how_many_may_be_up_is_sealed() -> None:
    plain, limited = (a_test_job(judge_version="1", at_once=each) for each in (None, 1))
    assert plain.preregistration_digest != limited.preregistration_digest


QUALITY = PLAN.model_copy(update={"metric": Metric.NLL_BITS})
"""A claim about scores, for which nothing is timed."""


@pytest.mark.parametrize(
    ("at_once", "cores", "up"),
    [
        (2, 4, [1, 2, 1, 2]),  # both at the same time, of each part
        (1, 4, [1, 1, 1, 1]),  # no memory for two
        (None, 4, [1, 1, 1, 1]),  # nobody counted what fits
        (2, 1, [1, 1, 1, 1]),  # no core for two
    ],
)
def test_both_arms_of_a_claim_about_scores_are_loaded_together_where_they_fit_and_score_the_same(
    run: Run, at_once: int | None, cores: int, up: list[int]
) -> None:
    engine = CountingEngine()
    job = a_test_job(FASTER | {"simulated.bits": 900.0}, at_once=at_once, plan=QUALITY)
    result = run(job, [Evaluate(), Evaluate(1)], engine, cores=cores)
    assert result.failure is None
    assert engine.up == up
    assert order(result) == [
        (Stage.EVALUATE, 0, "control"), (Stage.EVALUATE, 0, "candidate"),
        (Stage.VALIDATION, 1, "control"), (Stage.VALIDATION, 1, "candidate"),
    ]  # fmt: skip
    assert [each.values(Metric.NLL_BITS)[0] for each in result.launches] == [1000.0, 900.0] * 2


def not_scored(launch: str, kind: str, why: str) -> str:
    beside, again = {
        "candidate": ("the control", "it is loaded again once that was scored"),
        "control": ("the candidate", "both are loaded again, one after the other"),
    }[launch.partition(" ")[0]]
    return f"{launch} did not come up beside {beside} ({kind}), and {again}: {why}"


@pytest.mark.parametrize(
    ("later", "up"),
    [
        (Arm.CANDIDATE, [1, 2, 1]),  # the control that came up is scored, and then the candidate loaded
        (Arm.CONTROL, [1, 2, 1, 1]),  # the control is scored first, and wants its room for itself
    ],
)
def test_where_two_fit_by_count_and_not_in_truth_a_control_that_came_up_is_kept_and_a_second_load_is_told(
    run: Run, later: Arm, up: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[str] = []
    monkeypatch.setattr(Records, "note", lambda _, text: noted.append(text))
    engine = LaterEngine(later, room=1)
    result = run(a_test_job(FASTER, CONTROL, at_once=2, plan=QUALITY), [Evaluate()], engine, cores=4)
    assert result.failure is None
    assert engine.up == up
    assert order(result) == [(Stage.EVALUATE, 0, "control"), (Stage.EVALUATE, 0, "candidate")]
    detail = result.stages[-1].detail
    told = [not_scored(f"{later.value} 0", "out_of_memory", "no room beside the others")]
    assert detail[NOT_UP] == noted == told
    assert {"reference", "reused"} < detail.keys()


def test_of_both_arms_that_come_up_beside_each_other_nothing_is_told(run: Run) -> None:
    result = run(a_test_job(at_once=2, plan=QUALITY), [Evaluate(), Evaluate(1)], cores=4)
    assert result.failure is None
    assert not any(NOT_UP in each.detail for each in result.stages)


def test_where_the_control_was_scored_before_the_candidate_is_loaded_alone(run: Run) -> None:
    engine = CountingEngine()
    job = a_test_job(FASTER, at_once=2, plan=QUALITY)
    run(job, [Evaluate()], engine, cores=4)
    run(job, [Evaluate()], engine, cores=4)
    assert engine.up == [1, 2, 1]


@pytest.mark.parametrize("operation", ["load", "score"])
@pytest.mark.parametrize(("arm", "kind"), [(Arm.CONTROL, "control"), (Arm.CANDIDATE, "crashed")])
def test_an_arm_that_fails_where_both_are_loaded_together_is_the_one_that_is_told_of(
    run: Run, arm: Arm, kind: str, operation: str
) -> None:
    broken = {"simulated.tpot_ms": 7.0, "simulated.fails": operation}
    control, candidate = (broken, FASTER) if arm is Arm.CONTROL else (FASTER, broken)
    result = run(a_test_job(candidate, control, at_once=2, plan=QUALITY), [Evaluate()], cores=4)
    assert result.failure is not None
    assert result.failure.kind == kind
    scored = [] if arm is Arm.CONTROL else [Arm.CONTROL]
    assert [each.arm for each in result.launches if each.samples] == scored
    told = result.stages[-1].detail
    assert told["cause"] == result.failure.cause
    why = "The simulated process ended: simulated: no memory for the weights."
    of_load = [not_scored(f"{arm.value} 0", "crashed", why)]
    assert told.get(NOT_UP) == (of_load if operation == "load" else None)


@pytest.mark.parametrize(
    ("hangs", "stuck", "up"),
    [({"simulated.hangs": "score"}, Arm.CONTROL, 2), ({"simulated.load_s": 60.0}, Arm.CANDIDATE, 1)],
)
def test_time_that_is_up_while_both_are_loaded_together_ends_both(
    run: Run, hangs: dict[str, KnobValue], stuck: Arm, up: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow: dict[str, KnobValue] = {"simulated.tpot_ms": 7.0, **hangs}
    control, candidate = (slow, FASTER) if stuck is Arm.CONTROL else (FASTER, slow)
    engine = CountingEngine()
    end_all = StageLimits._end_all

    def once_up(limits: StageLimits, within_s: float, *more: Any) -> None:
        wait_for(lambda: len(engine.up) == up)  # however long a process takes to begin here
        end_all(limits, within_s, *more)

    monkeypatch.setattr(StageLimits, "_end_all", once_up)
    job = a_test_job(candidate, control, at_once=2, plan=QUALITY, within_s=0.5)
    result = run(job, [Evaluate()], engine, cores=4)
    assert (result.failure, result.launches, result.stop_reason) == (None, (), time_is_up(0.5))
    assert max(engine.up) == up
    assert NOT_UP not in result.stages[-1].detail, "what was ended then is not loaded again"


def test_pairs_that_are_ended_as_the_time_is_up_are_not_said_to_be_loaded_again(run: Run) -> None:
    job = a_test_job(FASTER | {"simulated.load_s": 60.0}, at_once=4, within_s=1.0)
    result = run(job, [MeasurePair(Stage.VALIDATION, 2)], cores=4)
    assert (result.failure, result.stop_reason) == (None, time_is_up(1.0))
    assert NOT_UP not in result.stages[-1].detail

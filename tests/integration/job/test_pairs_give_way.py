"""Pairs that wait give way to one that runs out of memory beside them: it is measured once more, alone. Real
processes of the simulated engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.engines.port import GenerationTrace, Infeasible, Launch
from experiments.job.limits import time_is_up
from experiments.job.records import Records
from experiments.measurement.evidence import NOT_UP, Stage
from experiments.measurement.judging import MeasureMore, MeasurePair
from experiments.shapes.marker import SHAPE_FILE
from tests.integration.job.running import Run, run
from tests.integration.job.short_of_memory import WHY, ShortBeside, counted, gave_way
from tests.simulated.engine import SimulatedEngine
from tests.simulated.specs import FASTER, PLAN, a_test_job

__all__ = ["run"]

TWO_PAIRS = [MeasurePair(Stage.VALIDATION, 2)] * 2


@pytest.mark.parametrize("asked", [0, 1, 2], ids=["warm-up", "first block", "second block"])
@pytest.mark.parametrize("arm", ["control", "candidate"])
def test_a_pair_that_runs_out_of_memory_beside_one_that_waits_is_measured_once_more_alone(
    run: Run, arm: str, asked: int
) -> None:
    engine = ShortBeside(arm, asked)
    result = run(a_test_job(at_once=4), TWO_PAIRS, engine, cores=4)
    assert result.failure is None
    assert counted(result) == counted(run(a_test_job(at_once=2), TWO_PAIRS, cores=4)), "nothing counts twice"
    assert engine.times_loaded() == {
        f"validation-{arm}-{index}": 2 for arm in ("control", "candidate") for index in (0, 1)
    }
    for name, others in engine.loaded[4:]:
        assert {each[-1] for each in others} <= {name[-1]}, "only its own pair is up beside it"
    assert [each.detail for each in result.stages if each.stage is Stage.VALIDATION] == [
        {NOT_UP: [gave_way(f"{arm} 0")]}, {},
    ]  # fmt: skip


def test_after_it_no_more_pairs_are_loaded_at_once(run: Run) -> None:
    plan = PLAN.model_copy(update={"validation_pairs": 3})
    engine = ShortBeside("candidate-0", beside=3)
    result = run(a_test_job(at_once=6, plan=plan), [MeasurePair(Stage.VALIDATION, 2)] * 3, engine, cores=6)
    assert result.failure is None
    beside = [others for _, _, others in engine.asked]
    assert (beside == sorted(beside, reverse=True), set(beside)) == (True, {5, 1})


def test_what_waits_is_ended_before_that_is_told_and_the_progress_begins_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ShortBeside("candidate", asked=2)
    told: list[tuple[str, set[str]]] = []
    done: list[int] = []
    progress = Records.progress

    def hear(records: Records, stage: Stage, *of: Any) -> None:
        progress(records, stage, *of)
        if stage is Stage.VALIDATION:
            done.append(of[0])

    monkeypatch.setattr(Records, "note", lambda _, text: told.append((text, engine.up())))
    monkeypatch.setattr(Records, "progress", hear)
    run(a_test_job(at_once=4), TWO_PAIRS[:1], engine, cores=4)
    assert told == [(gave_way("candidate 0"), set())]
    assert max(done) == done[-1] == 4
    again = done.index(0, done.index(1))
    assert done[again:] == sorted(done[again:])


@pytest.mark.parametrize(("arm", "kind"), [("control", "control"), ("candidate", "out_of_memory")])
def test_what_runs_out_of_memory_alone_too_has_failed_and_both_are_told(
    run: Run, arm: str, kind: str
) -> None:
    engine = ShortBeside(arm, asked=1, beside=-1)
    result = run(a_test_job(at_once=4), TWO_PAIRS, engine, cores=4)
    assert result.failure is not None
    assert result.failure.kind == kind
    assert WHY in result.failure.cause
    assert engine.times_loaded()[f"validation-{arm}-0"] == 2
    last = result.stages[-1]
    assert (last.outcome, last.detail[NOT_UP]) == ("failed", [gave_way(f"{arm} 0")])
    assert last.detail["kind"] == kind
    assert all(sample.block == 0 for each in result.launches for sample in each.samples)
    assert len(result.launches) <= 1, "nothing counts of the first time"


@pytest.mark.parametrize(("at_once", "kind"), [(2, "out_of_memory"), (4, "crashed")])
def test_with_no_pair_waiting_and_for_another_failure_there_is_no_second_time(
    run: Run, at_once: int, kind: str
) -> None:
    engine = ShortBeside("candidate", asked=1, beside=-1, kind=kind)
    result = run(a_test_job(at_once=at_once), TWO_PAIRS, engine, cores=4)
    assert result.failure is not None
    assert result.failure.kind == kind
    assert set(engine.times_loaded().values()) == {1}
    assert NOT_UP not in result.stages[-1].detail


def test_the_last_pair_beside_which_none_waits_any_more_has_no_second_time(run: Run) -> None:
    engine = ShortBeside("candidate-1", asked=1, beside=-1)
    result = run(a_test_job(at_once=4), TWO_PAIRS, engine, cores=4)
    assert result.failure is not None
    assert result.failure.kind == "out_of_memory"
    assert set(engine.times_loaded().values()) == {1}


class ShortAtItsEnd(SimulatedEngine):
    """Whatever ends a launch that is asked is told as a want of memory."""

    def launch(self, *asked: object, **more: object) -> Any:
        """As the engine."""
        launch: Launch = super().launch(*asked, **more)  # type: ignore[arg-type]
        serve = launch.serve

        def short(*requests: Any) -> list[GenerationTrace]:
            try:
                return serve(*requests)
            except Infeasible as reason:
                raise Infeasible("out_of_memory", reason.cause) from reason

        launch.serve = short  # type: ignore[method-assign]
        return launch


def test_what_is_ended_as_the_time_is_up_is_not_said_to_be_measured_anew(run: Run) -> None:
    job = a_test_job(FASTER | {"simulated.hangs": "generate"}, at_once=4, within_s=1.0)
    result = run(job, TWO_PAIRS, ShortAtItsEnd(), cores=4)
    assert (result.failure, result.launches, result.stop_reason) == (None, (), time_is_up(1.0))
    assert NOT_UP not in result.stages[-1].detail


def test_further_blocks_of_a_pair_that_runs_out_of_memory_are_measured_in_a_fresh_pair_and_the_others_stand(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "shape").mkdir()
    (tmp_path / "shape" / SHAPE_FILE).write_text("{}")
    job = a_test_job(
        FASTER, at_once=4, plan=PLAN.model_copy(update={"latency_only": True, "validation_pairs": 1})
    )
    steps = [MeasurePair(Stage.QUICK, 2), MeasureMore(Stage.FULL, 3), MeasurePair(Stage.VALIDATION, 2)]
    engine = ShortBeside("candidate", asked=1 + 2 + 1)  # in the second of the further blocks
    result = run(job, steps, engine, cores=4, checkpoint=tmp_path / "shape")
    assert result.failure is None
    blocks = [(stage, index, told) for stage, index, *_, told in counted(result)[::2]]
    assert blocks == [
        (Stage.QUICK, 0, [0, 1]), (Stage.FULL, 1, [0, 1, 2]), (Stage.VALIDATION, 2, [0, 1]),
    ]  # fmt: skip
    assert len(engine.loaded) == 2 + 2 + 2 + 2
    details = {each.stage: each.detail for each in result.stages if each.stage is not Stage.STATIC}
    assert details == {
        Stage.QUICK: {}, Stage.FULL: {NOT_UP: [gave_way("candidate 0")]}, Stage.VALIDATION: {},
    }  # fmt: skip

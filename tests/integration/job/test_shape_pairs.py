"""Pairs of a shape's test load together where there is room, and as often as its cost is reckoned with. Real
processes of the simulated engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.plan.duration import loaded_together, waits
from configs.campaign_plan import PlanSpec
from experiments.job import pairs_ahead
from experiments.job.launching import open_launches
from experiments.measurement.evidence import Stage
from experiments.measurement.judging import MeasureMore, MeasurePair
from experiments.shapes.marker import SHAPE_FILE
from tests.integration.job.counting_engine import CountingEngine, order
from tests.integration.job.running import Run, run
from tests.simulated.specs import PLAN, a_test_job

__all__ = ["run"]


@pytest.fixture
def shape(tmp_path: Path) -> Path:
    (tmp_path / "shape").mkdir()
    (tmp_path / "shape" / SHAPE_FILE).write_text("{}")
    return tmp_path / "shape"


def test_the_validation_of_a_shape_is_loaded_with_the_quick_pair_and_timed_after_it(
    run: Run, shape: Path
) -> None:
    engine = CountingEngine()
    job = a_test_job(at_once=4, plan=PLAN.model_copy(update={"latency_only": True, "validation_pairs": 1}))
    steps = [MeasurePair(Stage.QUICK, 2), MeasureMore(Stage.FULL, 2), MeasurePair(Stage.VALIDATION, 2)]
    result = run(job, steps, engine, cores=4, checkpoint=shape)
    assert max(engine.up) == len(engine.up) == 4, "all are up at once, and nothing is loaded again"
    assert [(stage, index) for stage, index, _ in order(result)[::2]] == [
        (Stage.QUICK, 0), (Stage.VALIDATION, 1),
    ]  # fmt: skip


def test_a_pair_of_a_shape_that_was_loaded_ahead_serves_whatever_stage_comes_next(
    run: Run, shape: Path
) -> None:
    engine = CountingEngine()
    job = a_test_job(at_once=4, plan=PLAN.model_copy(update={"latency_only": True, "validation_pairs": 1}))
    steps = [MeasurePair(stage, 2) for stage in (Stage.QUICK, Stage.FULL, Stage.VALIDATION)]
    result = run(job, steps, engine, cores=4, checkpoint=shape)
    assert result.failure is None
    assert [(stage, index) for stage, index, _ in order(result)[::2]] == [
        (Stage.QUICK, 0), (Stage.FULL, 1), (Stage.VALIDATION, 2),
    ]  # fmt: skip
    assert len(engine.up) == 6


@pytest.mark.parametrize(("at_once", "cores"), [(4, 4), (4, 3), (6, 8), (2, 8), (None, 8)])
@pytest.mark.parametrize("full_pairs", [1, 4])
def test_a_test_of_a_shape_waits_for_loads_as_often_as_its_cost_is_reckoned_with(
    run: Run, shape: Path, monkeypatch: pytest.MonkeyPatch, at_once: int | None, cores: int, full_pairs: int
) -> None:
    loads: list[int] = []

    def counted(job: Any, stage: Stage, wanted: Sequence[Any], **how: Any) -> Any:
        loads.append(len(wanted))
        return open_launches(job, stage, wanted, **how)

    monkeypatch.setattr(pairs_ahead, "open_launches", counted)
    plan = PLAN.model_copy(update={"latency_only": True, "validation_pairs": 2})
    stages = [Stage.QUICK, *[Stage.FULL] * full_pairs, *[Stage.VALIDATION] * 2]
    result = run(
        a_test_job(at_once=at_once, plan=plan),
        [MeasurePair(stage, 1) for stage in stages],
        CountingEngine(),
        cores=cores,
        checkpoint=shape,
    )
    assert result.failure is None
    together = loaded_together(
        PlanSpec.model_construct(validation_pairs=2), at_once, cores, latency_only=True
    )
    assert len(loads) == waits(len(stages), together)

"""Verdicts on made-up weights: nothing is scored, nothing passes a quality, drafting has no effect."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from agent.judge.launch_interval import LaunchIntervalJudge
from agent.judge.made_up import LATENCY_ONLY
from agent.judge.quality import quality_report
from experiments.measurement.evidence import Evidence, Metric, NoiseProfile, Stage
from experiments.measurement.judging import Evaluate, MeasurePair, Outcome, Screen, Stop
from experiments.measurement.plan import StoppingPlan
from tests.simulation.experiment import PLAN, PRUNED, Truth, run

JUDGE = LaunchIntervalJudge()
QUIET = Truth(launch_sd=0.002, disturbance_sd=0.001, request_sd=0.001, interruption_chance=0.0)
KNOWN = NoiseProfile("target", Metric.TPOT_MS, 9, 8, 0.002)
SHAPE = PLAN.model_copy(update={"latency_only": True})


@pytest.mark.parametrize(
    ("effect", "outcome"), [(0.8, Outcome.SUPPORTED), (1.0, Outcome.REFUTED), (1.2, Outcome.REFUTED)]
)
def test_changed_weights_are_timed_at_once_and_judged_by_latency_alone(
    effect: float, outcome: Outcome
) -> None:
    taken: list[object] = []
    truth = replace(QUIET, effect_log=math.log(effect), changes=PRUNED)
    verdict, _ = run(JUDGE, SHAPE, truth, np.random.default_rng(1), KNOWN, on_step=taken.append)
    assert isinstance(taken[0], MeasurePair)
    assert isinstance(taken[-1], Stop)
    assert not [step for step in taken if isinstance(step, Screen | Evaluate)]
    assert verdict.outcome is outcome
    assert LATENCY_ONLY in verdict.reason
    assert verdict.quality["state"] == "not known"
    assert "quality held" not in verdict.reason


def test_a_supported_verdict_still_needs_its_validation_pairs() -> None:
    taken: list[object] = []
    truth = replace(QUIET, effect_log=math.log(0.8))
    run(JUDGE, SHAPE, truth, np.random.default_rng(1), KNOWN, on_step=taken.append)
    stages = [step.stage for step in taken if isinstance(step, MeasurePair)]
    assert stages.count(Stage.VALIDATION) == SHAPE.validation_pairs


def test_without_made_up_weights_the_plan_is_hashed_as_before() -> None:
    assert PLAN.digest("a", "b") == StoppingPlan.model_validate(
        {name: value for name, value in PLAN.model_dump().items() if name != "latency_only"}
    ).digest("a", "b")
    assert SHAPE.digest("a", "b") != PLAN.digest("a", "b")


@pytest.mark.parametrize("metric", [Metric.NLL_BITS, Metric.TASK_CORRECT, Metric.STEP_WEIGHT_BYTES])
def test_a_plan_on_anything_but_time_is_refused(metric: Metric) -> None:
    with pytest.raises(ValueError, match="made-up weights have times alone"):
        StoppingPlan.model_validate({**SHAPE.model_dump(), "metric": metric})


def test_quality_is_never_held_whatever_is_there() -> None:
    empty = Evidence((), KNOWN, (), ())
    assert quality_report(SHAPE, empty).state == "not known"
    assert quality_report(PLAN, empty).state == "not measured"

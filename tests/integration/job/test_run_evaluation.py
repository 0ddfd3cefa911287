"""How a job evaluates quality: once a reference, screened first, by parts, claims that are scored."""

import math
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest

from agent.judge.launch_interval import LaunchIntervalJudge
from experiments.engines.port import NO_NUMBERS
from experiments.measurement.evidence import (
    Arm,
    Evidence,
    Metric,
    NoiseProfile,
    Stage,
)
from experiments.measurement.judging import (
    Evaluate,
    JudgeVerdict,
    MeasurePair,
    Outcome,
    Screen,
)
from experiments.measurement.plan import StoppingPlan
from experiments.space.configuration import Configuration
from tests.integration.job.running import Run, items, run
from tests.simulated.engine import SimulatedLaunch
from tests.simulated.judges import StepsJudge
from tests.simulated.specs import CONTROL, FASTER, PLAN, WORKLOAD, a_test_job

__all__ = ["run"]


def test_the_reference_is_evaluated_once_and_then_reused(run: Run):
    spec = a_test_job(FASTER | {"simulated.bits": 1100.0})
    first = run(spec, [MeasurePair(Stage.QUICK, 2), Evaluate()])
    second = run(spec, [Evaluate()])
    for result in (first, second):
        control, candidate = (launch for launch in result.launches if launch.stage is Stage.EVALUATE)
        assert control.values(Metric.NLL_BITS)[0] == 1000
        assert candidate.values(Metric.NLL_BITS)[0] == 1100
        assert candidate.values(Metric.KL_NATS) == pytest.approx([0.1] * WORKLOAD.evaluation_documents)
        assert [s.item for s in control.samples if s.metric is Metric.TASK_CORRECT] == [
            s.item for s in candidate.samples if s.metric is Metric.TASK_CORRECT
        ]
    assert [artifact.kind for artifact in first.artifacts] == ["evaluation"]
    assert first.artifacts[0].build_s > 0
    assert second.artifacts[0].build_s == 0
    assert second.artifacts[0].digest == first.artifacts[0].digest


def test_quality_is_compared_with_the_reference_that_the_spec_names(run: Run):
    spec = a_test_job(FASTER, reference=CONTROL | {"simulated.bits": 900.0})
    result = run(spec, [Evaluate()])
    control, _ = result.launches
    assert control.configuration_digest == Configuration.of(CONTROL | {"simulated.bits": 900.0}).digest
    assert control.values(Metric.NLL_BITS)[0] == 900


@pytest.mark.parametrize(("arm", "kind"), [("control", "control"), ("candidate", NO_NUMBERS)])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_model_that_computes_no_numbers_ends_its_experiment_in_a_sentence_and_nothing_is_stored(
    run: Run, monkeypatch: pytest.MonkeyPatch, arm: str, kind: str, value: float
):
    score = SimulatedLaunch.score

    def broken(self: SimulatedLaunch, *args: Any, **options: Any) -> Any:
        documents, tasks = score(self, *args, **options)
        scored = "candidate" if options.get("reference") is not None else "control"
        return [replace(each, nll_bits=value) if scored == arm else each for each in documents], tasks

    monkeypatch.setattr(SimulatedLaunch, "score", broken)
    result = run(a_test_job(FASTER | {"simulated.bits": 1100.0}), [Evaluate()])
    assert result.failure is not None
    assert result.failure.kind == kind
    assert "The model computes no numbers: nll_bits of " in result.failure.cause
    assert f"came out as {value}." in result.failure.cause
    kept = [sample.value for launch in result.launches for sample in launch.samples]
    assert all(map(math.isfinite, kept))


def test_changed_weights_are_screened_in_the_launch_that_is_ready_soonest(run: Run):
    spec = a_test_job(FASTER | {"simulated.bits": 1100.0, "simulated.load_s": 0.01})
    result = run(spec, [Screen(), MeasurePair(Stage.QUICK, 2)])
    plain = Configuration.of(FASTER | {"simulated.bits": 1100.0})
    control, candidate = (launch for launch in result.launches if launch.stage is Stage.SCREEN)
    assert candidate.configuration_digest == plain.digest
    assert candidate.values(Metric.NLL_BITS)[0] == 1100
    assert control.values(Metric.NLL_BITS)[0] == 1000
    assert [launch.stage for launch in result.launches[2:]] == [Stage.QUICK, Stage.QUICK]


def test_a_screen_of_the_candidate_as_it_is_served_counts_as_its_evaluation(run: Run):
    result = run(a_test_job(FASTER | {"simulated.bits": 1100.0}), [Screen()])
    assert [launch.stage for launch in result.launches] == [Stage.EVALUATE, Stage.EVALUATE]
    assert (
        result.launches[1].configuration_digest
        == Configuration.of(FASTER | {"simulated.bits": 1100.0}).digest
    )


class RefutesByBits(StepsJudge):
    """Refutes a candidate that needs more bits than the reference."""

    name = "refutes-by-bits"

    def verdict(self, plan: StoppingPlan, evidence: Evidence) -> JudgeVerdict:
        bits = {
            arm: fmean(v for each in evidence.of(arm, Stage.EVALUATE) for v in each.values(Metric.NLL_BITS))
            for arm in Arm
        }
        verdict = super().verdict(plan, evidence)
        worse = bits[Arm.CANDIDATE] > bits[Arm.CONTROL]
        return replace(verdict, outcome=Outcome.REFUTED) if worse else verdict


@pytest.mark.parametrize(("bits", "asked"), [(1100.0, False), (900.0, True)])
def test_what_its_bits_refute_is_asked_no_items(run: Run, bits: float, asked: bool):
    result = run(a_test_job(FASTER | {"simulated.bits": bits}), RefutesByBits([Screen()]))
    control, candidate = result.launches
    assert bool(items(candidate, Metric.TASK_CORRECT)) is asked
    assert items(candidate, Metric.NLL_BITS) == items(control, Metric.NLL_BITS)
    assert len({sample.seq for sample in candidate.samples}) == len(candidate.samples)


def of_metric(metric: Metric, **more: object) -> dict[str, object]:
    """The plan of a spec whose claim is on another metric."""
    return {"plan": PLAN.model_copy(update={"metric": metric, **more})}


def test_a_second_part_is_scored_by_fresh_processes_on_further_documents_and_items(run: Run):
    result = run(a_test_job(FASTER | {"simulated.bits": 900.0}), [Evaluate(), Evaluate(part=1)])
    assert [(each.arm, each.stage, each.index) for each in result.launches] == [
        (arm, stage, index)
        for stage, index in ((Stage.EVALUATE, 0), (Stage.VALIDATION, 1))
        for arm in (Arm.CONTROL, Arm.CANDIDATE)
    ]
    for metric, count in (
        (Metric.NLL_BITS, WORKLOAD.evaluation_documents),
        (Metric.TASK_CORRECT, WORKLOAD.evaluation_items),
    ):
        first, further = (items(result.launches[place], metric) for place in (1, 3))
        assert len(first) == len(further) == count
        assert not first & further
        assert further == items(result.launches[2], metric)
    assert len({artifact.digest for artifact in result.artifacts}) == 2


def test_a_claim_on_quality_is_compared_with_its_control_and_not_with_the_baseline(run: Run):
    baseline = CONTROL | {"simulated.bits": 900.0}
    result = run(a_test_job(FASTER, reference=baseline, **of_metric(Metric.NLL_BITS)), [Evaluate()])
    assert result.launches[0].configuration_digest == Configuration.of(CONTROL).digest
    assert result.launches[0].values(Metric.NLL_BITS)[0] == 1000


def test_every_evaluated_launch_tells_the_bytes_that_a_step_reads_where_the_engine_does(run: Run):
    heavy = CONTROL | {"simulated.step_weight_bytes": 8000}
    result = run(a_test_job(FASTER | {"simulated.step_weight_bytes": 3000}, heavy), [Evaluate()])
    assert [launch.values(Metric.STEP_WEIGHT_BYTES) for launch in result.launches] == [[8000.0], [3000.0]]
    silent = run(a_test_job(), [Evaluate()])
    assert not any(launch.values(Metric.STEP_WEIGHT_BYTES) for launch in silent.launches)


def test_bytes_are_those_of_the_control_where_another_configuration_lends_the_quality(run: Run):
    control = CONTROL | {"simulated.step_weight_bytes": 5000}
    baseline = CONTROL | {"simulated.step_weight_bytes": 8000}
    candidate = FASTER | {"simulated.step_weight_bytes": 3000}
    spec = a_test_job(candidate, control, reference=baseline, **of_metric(Metric.STEP_WEIGHT_BYTES))
    result = run(spec, [Evaluate()])
    told = {
        each.configuration_digest: each.values(Metric.STEP_WEIGHT_BYTES)
        for each in result.launches
        if each.values(Metric.STEP_WEIGHT_BYTES)
    }
    assert told == {
        Configuration.of(control).digest: [5000.0],
        Configuration.of(candidate).digest: [3000.0],
    }


SCORED = [
    (
        {"simulated.bits": 980.0},
        {"metric": Metric.NLL_BITS, "min_effect": 0.005},
        "Bits per byte −2.0 %",
    ),
    (
        {"simulated.unsolved": 0},
        {"metric": Metric.TASK_CORRECT, "min_effect": 0.02},
        "Tasks +30.0 points",
    ),
    (
        {"simulated.step_weight_bytes": 4000},
        {"metric": Metric.STEP_WEIGHT_BYTES, "min_effect": 0.05},
        "Bytes a step −50.0 %",
    ),
]


@pytest.mark.parametrize(("knobs", "claim", "told"), SCORED)
def test_a_claim_that_is_scored_is_supported_by_the_real_judge_and_nothing_is_timed(
    run: Run, knobs: dict, claim: dict, told: str
):
    margins = PLAN.margins.model_copy(update={"task_points": 10.0})
    plan = PLAN.model_copy(update={"margins": margins, **claim})
    before = {
        "simulated.bits": 1000.0,
        "simulated.unsolved": 15 if claim["metric"] is Metric.TASK_CORRECT else 0,
        "simulated.step_weight_bytes": 8000,
    }
    spec = a_test_job(FASTER | before | knobs, CONTROL | before, plan=plan)
    result = run(spec, LaunchIntervalJudge())
    assert [stage.stage for stage in result.stages] == [Stage.STATIC, Stage.EVALUATE, Stage.VALIDATION]
    assert not any(launch.values(Metric.TPOT_MS) for launch in result.launches)
    changes = Configuration.of(spec.control).changes_to(Configuration.of(spec.candidate))
    noise = NoiseProfile("desk/cpu", plan.metric, 0, 0, None)
    verdict = LaunchIntervalJudge().verdict(plan, Evidence(result.launches, noise, changes))
    assert verdict.outcome is Outcome.SUPPORTED, verdict.reason
    assert told in verdict.reason


def test_a_screened_configuration_that_the_spec_does_not_name_is_told_with_its_knobs(run: Run):
    result = run(a_test_job(FASTER | {"simulated.load_s": 0.01}), [Screen()])
    plain = Configuration.of(FASTER)
    assert dict(result.configurations) == {plain.digest: dict(plain)}
    assert run(a_test_job(), [Screen()]).configurations == {}

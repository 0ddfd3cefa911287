"""Claims on quality and on bytes: the order of steps, every verdict, and what the sentences say."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multinomial

from agent.judge.launch_interval import LaunchIntervalJudge
from agent.judge.noninferiority import tango_upper
from agent.judge.quality import quality_report
from agent.judge.scored_effect import scored_effect
from experiments.measurement.evidence import (
    SCORED_METRICS,
    Arm,
    Evidence,
    LaunchRecord,
    Metric,
    NoiseProfile,
    Sample,
    Stage,
)
from experiments.measurement.judging import Evaluate, JudgeVerdict, Outcome, Stop
from experiments.measurement.plan import StoppingPlan
from experiments.space.configuration import Change
from tests.simulation.experiment import PLAN, SimulatedExperiment, Truth, run

JUDGE = LaunchIntervalJudge()
NOTHING_KNOWN = NoiseProfile("target", Metric.TPOT_MS, 0, 0, None)
CORPUS = (Change("quantization.corpus", "raw", "instruct"),)
EXACT = Truth(bits_document_sd=0.0, changes=CORPUS)
BITS = PLAN.model_copy(update={"metric": Metric.NLL_BITS, "min_effect": 0.005})
TASKS = PLAN.model_copy(
    update={
        "metric": Metric.TASK_CORRECT,
        "min_effect": 0.02,
        "workload": PLAN.workload.model_copy(update={"evaluation_items": 300}),
    }
)
BYTES = PLAN.model_copy(update={"metric": Metric.STEP_WEIGHT_BYTES, "min_effect": 0.05})
PLANS = {plan.metric: plan for plan in (BITS, TASKS, BYTES)}


def judged(
    plan: StoppingPlan, truth: Truth, seed: int = 1
) -> tuple[list[object], JudgeVerdict, SimulatedExperiment]:
    taken: list[object] = []
    rng = np.random.default_rng(seed)
    verdict, experiment = run(JUDGE, plan, truth, rng, NOTHING_KNOWN, on_step=taken.append)
    return taken, verdict, experiment


def fewer_bits(log: float = -0.02) -> Truth:
    return Truth(bits_log=log, changes=CORPUS)


def more_tasks(share: float = 0.08) -> Truth:
    return Truth(task_gain_chance=share, changes=CORPUS)


LIGHTER = replace(EXACT, control_bytes=8000.0, candidate_bytes=3000.0)


@pytest.mark.parametrize(("plan", "truth"), [(BITS, fewer_bits()), (TASKS, more_tasks()), (BYTES, LIGHTER)])
def test_a_gain_is_supported_after_an_evaluation_and_a_validation_on_further_text(
    plan: StoppingPlan, truth: Truth
) -> None:
    taken, verdict, experiment = judged(plan, truth)
    assert taken == [Evaluate(), Evaluate(part=1), taken[-1]]
    assert verdict.outcome == Outcome.SUPPORTED, verdict.reason
    first, further = (
        {sample.item for r in experiment.evidence().of(Arm.CANDIDATE, stage) for sample in r.samples}
        for stage in (Stage.EVALUATE, Stage.VALIDATION)
    )
    assert first & further <= {"weights"}
    assert verdict.launches == 4


def test_fewer_bits_are_told_in_percent_with_how_many_documents_and_what_guards_them() -> None:
    _, verdict, _ = judged(BITS, fewer_bits())
    documents = BITS.workload.evaluation_documents
    assert verdict.reason.startswith("Bits per byte −2.")
    for part in (
        f"{2 * documents} documents",
        f"{documents} documents more, the candidate's by a fresh process",
        "beyond the 0.5 % asked for",
        "quality held: tasks 0.0 points",
    ):
        assert part in verdict.reason
    assert "TPOT" not in verdict.reason
    assert verdict.effect_log == pytest.approx(-0.02, abs=0.002)
    assert verdict.samples == 4 * documents
    assert verdict.details["metric"] == "nll_bits"


def test_more_tasks_are_told_in_points_and_stored_as_a_difference_of_shares_with_its_sign_turned() -> None:
    _, verdict, _ = judged(TASKS, more_tasks(0.08))
    assert verdict.reason.startswith("Tasks +")
    assert " points [+" in verdict.reason
    assert "beyond the 2 points asked for" in verdict.reason
    assert "quality held: bits per byte" in verdict.reason
    assert verdict.effect_log is not None
    assert verdict.interval_high_log is not None
    assert verdict.effect_log == pytest.approx(-0.08, abs=0.03)
    assert verdict.interval_high_log < -0.02


def test_bytes_are_an_exact_ratio_without_an_interval_and_without_timing() -> None:
    _, verdict, _ = judged(BYTES, LIGHTER)
    exact = math.log(3000 / 8000)
    assert (verdict.effect_log, verdict.interval_low_log, verdict.interval_high_log) == (exact,) * 3
    assert verdict.reason.startswith("Bytes a step −62.5 % against the control, counted, not estimated")
    assert "bits per byte" in verdict.reason
    assert "tasks" in verdict.reason


@pytest.mark.parametrize(
    ("plan", "truth"),
    [
        (BITS, fewer_bits(+0.02)),
        (TASKS, Truth(task_loss_chance=0.08, changes=CORPUS)),
        (BYTES, replace(EXACT, control_bytes=8000.0, candidate_bytes=7900.0)),
    ],
)
def test_an_interval_on_the_other_side_is_refuted_after_one_evaluation(
    plan: StoppingPlan, truth: Truth
) -> None:
    taken, verdict, _ = judged(plan, truth)
    assert [type(step) for step in taken] == [Evaluate, Stop]
    assert verdict.outcome == Outcome.REFUTED
    assert "smaller than the" in verdict.reason
    assert verdict.quality["state"] != "worse", "the judged metric itself is no guardrail"


@pytest.mark.parametrize(
    ("plan", "truth"),
    [(BITS, Truth(bits_log=-0.005, bits_document_sd=0.02)), (TASKS, more_tasks(0.025))],
)
def test_an_effect_about_the_margin_stays_open_after_both_looks(plan: StoppingPlan, truth: Truth) -> None:
    taken, verdict, _ = judged(plan, truth)
    assert [type(step) for step in taken] == [Evaluate, Evaluate, Stop]
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert "neither reaches nor excludes" in verdict.reason


@pytest.mark.parametrize(
    ("plan", "truth"), [(BITS, Truth(bits_log=-0.0095, bits_document_sd=0.01)), (TASKS, more_tasks(0.052))]
)
def test_a_first_look_that_leaves_a_gain_open_is_followed_by_one_over_all_that_supports_it(
    plan: StoppingPlan, truth: Truth
) -> None:
    """Over seeds some first looks are open whose gain the second one sees; none is refuted."""
    supported = 0
    for seed in range(20):
        taken, verdict, experiment = judged(plan, truth, seed)
        evidence = experiment.evidence()
        first = replace(evidence, launches=tuple(r for r in evidence.launches if r.stage == Stage.EVALUATE))
        open_at_first = "neither reaches nor excludes" in JUDGE.verdict(plan, first).reason
        assert [type(step) for step in taken] == [Evaluate, Evaluate, Stop]
        assert verdict.outcome != Outcome.REFUTED
        supported += open_at_first and verdict.outcome == Outcome.SUPPORTED
    assert supported > 0


@pytest.mark.parametrize(
    ("plan", "worse"), [(BITS, Truth(bits_log=0.01)), (TASKS, Truth(task_loss_chance=0.03))]
)
def test_what_the_first_look_left_open_may_be_refuted_by_the_second(plan: StoppingPlan, worse: Truth) -> None:
    truth = (
        Truth(bits_log=-0.004, bits_document_sd=0.01, changes=CORPUS) if plan is BITS else more_tasks(0.02)
    )
    experiment = SimulatedExperiment(plan, truth, np.random.default_rng(1), NOTHING_KNOWN)
    experiment.take(Evaluate())
    assert JUDGE.next_step(plan, experiment.evidence()) == Evaluate(part=1)
    experiment.truth = replace(worse, changes=CORPUS)
    experiment.take(Evaluate(part=1))
    verdict = JUDGE.verdict(plan, experiment.evidence())
    assert verdict.outcome == Outcome.REFUTED
    assert "smaller than the" in verdict.reason


@pytest.mark.parametrize(
    ("plan", "truth", "named"),
    [
        (BITS, replace(fewer_bits(), tasks_lost=40), "tasks −"),
        (TASKS, replace(more_tasks(), bits_log=0.05), "bits per byte +5"),
        (BYTES, replace(LIGHTER, bits_log=0.05), "bits per byte +5"),
        (BYTES, replace(LIGHTER, tasks_lost=40), "tasks −"),
    ],
)
def test_a_guardrail_that_is_worse_refutes_and_is_named(plan: StoppingPlan, truth: Truth, named: str) -> None:
    taken, verdict, _ = judged(plan, truth)
    assert [type(step) for step in taken] == [Evaluate, Stop]
    assert verdict.outcome == Outcome.REFUTED
    assert verdict.reason.startswith("The quality is worse than allowed")
    assert named in verdict.reason
    assert verdict.quality["state"] == "worse"


@pytest.mark.parametrize(
    ("plan", "truth"),
    [
        (BITS, replace(fewer_bits(), task_loss_chance=0.015)),
        (TASKS, replace(more_tasks(), bits_document_sd=0.1)),
        (BYTES, replace(LIGHTER, bits_document_sd=0.1)),
    ],
)
def test_a_guardrail_that_the_data_leave_open_is_looked_at_again_and_then_inconclusive(
    plan: StoppingPlan, truth: Truth
) -> None:
    taken, verdict, _ = judged(plan, truth)
    assert [type(step) for step in taken] == [Evaluate, Evaluate, Stop]
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert "do not settle the quality" in verdict.reason


def test_a_guardrail_that_further_items_hold_no_longer_keeps_a_gain_from_being_supported() -> None:
    experiment = SimulatedExperiment(
        BITS, replace(fewer_bits(), tasks_lost=2), np.random.default_rng(1), NOTHING_KNOWN
    )
    experiment.take(Evaluate())
    assert "do not settle the quality" in JUDGE.verdict(BITS, experiment.evidence()).reason
    experiment.truth = fewer_bits()
    experiment.take(Evaluate(part=1))
    assert JUDGE.verdict(BITS, experiment.evidence()).outcome == Outcome.SUPPORTED


def test_drafting_that_the_evaluation_did_not_check_leaves_nothing_for_further_text_to_settle() -> None:
    drafting = (Change("drafting.draft_tokens", None, 2), Change("drafting.method", "none", "mtp"))
    truth = replace(fewer_bits(), changes=drafting)
    experiment = SimulatedExperiment(BITS, truth, np.random.default_rng(1), NOTHING_KNOWN)
    experiment.take(Evaluate())
    step = JUDGE.next_step(BITS, experiment.evidence())
    assert isinstance(step, Stop)
    assert "drafting was not checked" in step.reason


def test_without_items_to_guard_them_bits_are_judged_alone() -> None:
    plan = BITS.model_copy(update={"workload": BITS.workload.model_copy(update={"evaluation_items": 0})})
    _, verdict, _ = judged(plan, fewer_bits())
    assert verdict.outcome == Outcome.SUPPORTED
    assert "nothing else was asked for" in verdict.reason


def test_a_validation_that_shows_nothing_keeps_a_strong_evaluation_from_being_supported() -> None:
    for plan, truth in ((BITS, fewer_bits(-0.05)), (TASKS, more_tasks(0.2)), (BYTES, LIGHTER)):
        experiment = SimulatedExperiment(plan, truth, np.random.default_rng(1), NOTHING_KNOWN)
        experiment.take(Evaluate())
        assert JUDGE.next_step(plan, experiment.evidence()) == Evaluate(part=1)
        experiment.truth = replace(EXACT, control_bytes=8000.0, candidate_bytes=8000.0)
        experiment.take(Evaluate(part=1))
        assert isinstance(JUDGE.next_step(plan, experiment.evidence()), Stop)
        assert JUDGE.verdict(plan, experiment.evidence()).outcome == Outcome.INCONCLUSIVE


@pytest.mark.parametrize(("plan", "truth"), [(BITS, fewer_bits()), (TASKS, more_tasks()), (BYTES, LIGHTER)])
def test_nothing_is_supported_without_the_validation(plan: StoppingPlan, truth: Truth) -> None:
    _, _, experiment = judged(plan, truth)
    evidence = experiment.evidence()
    first = replace(evidence, launches=tuple(r for r in evidence.launches if r.stage == Stage.EVALUATE))
    verdict = JUDGE.verdict(plan, first)
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert "no fresh process has confirmed it" in verdict.reason


def test_too_few_further_documents_confirm_nothing() -> None:
    _, _, experiment = judged(BITS, fewer_bits())
    few = tuple(
        replace(
            record,
            samples=tuple(
                s for s in record.samples if s.metric == Metric.TASK_CORRECT or s.item in ("d32", "d33")
            ),
        )
        if record.stage == Stage.VALIDATION
        else record
        for record in experiment.launches
    )
    verdict = JUDGE.verdict(BITS, replace(experiment.evidence(), launches=few))
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert "too few further documents were left to confirm it" in verdict.reason


def test_a_claim_on_bytes_that_touches_drafting_is_refused_before_anything_is_scored() -> None:
    drafting = Change("drafting.drafter", "packaged", "smaller")
    taken, verdict, experiment = judged(BYTES, replace(LIGHTER, changes=(*CORPUS, drafting)))
    assert [type(step) for step in taken] == [Stop]
    assert experiment.launches == []
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert "whose bytes are not counted" in verdict.reason
    assert "drafting.drafter packaged → smaller" in verdict.reason
    _, other, _ = judged(BITS, replace(fewer_bits(), changes=(*CORPUS, drafting)))
    assert "bytes" not in other.reason.replace("bits per byte", "")


def test_bytes_that_an_engine_does_not_tell_are_no_claim() -> None:
    _, verdict, _ = judged(BYTES, EXACT)
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert verdict.reason == "Not both arms told how many bytes of weights a step reads."
    assert verdict.effect_log is None


def test_a_reference_that_is_not_the_control_lends_its_quality_and_not_its_bytes() -> None:
    _, _, experiment = judged(BYTES, LIGHTER)
    launches = []
    for record in experiment.launches:
        if record.arm == Arm.CANDIDATE:
            launches.append(record)
            continue
        told = [s for s in record.samples if s.metric == Metric.STEP_WEIGHT_BYTES]
        scored = [s for s in record.samples if s.metric != Metric.STEP_WEIGHT_BYTES]
        launches += [
            replace(
                record,
                samples=tuple(scored),
                configuration_digest="reference",
                resolved={"threads": 1},
            ),
            replace(record, samples=tuple(told)),
        ]
    verdict = JUDGE.verdict(BYTES, replace(experiment.evidence(), launches=tuple(launches)))
    assert verdict.outcome == Outcome.SUPPORTED, verdict.reason
    assert verdict.effect_log == math.log(3000 / 8000)


@pytest.mark.parametrize("metric", sorted(SCORED_METRICS))
def test_no_evidence_and_one_arm_alone_are_inconclusive(metric: Metric) -> None:
    plan = PLANS[metric]
    nothing = Evidence((), NOTHING_KNOWN, CORPUS)
    assert JUDGE.verdict(plan, nothing).reason == "Nothing was scored."
    _, _, experiment = judged(plan, LIGHTER)
    alone = tuple(r for r in experiment.launches if r.arm == Arm.CANDIDATE)
    verdict = JUDGE.verdict(plan, replace(nothing, launches=alone))
    assert (verdict.outcome, verdict.effect_log) == (Outcome.INCONCLUSIVE, None)
    assert isinstance(JUDGE.next_step(plan, replace(nothing, launches=alone)), Stop)


def test_arms_that_resolve_to_more_than_the_claimed_change_are_confounded_though_nothing_was_timed() -> None:
    _, _, experiment = judged(BITS, fewer_bits())
    launches = tuple(
        replace(r, resolved={"dtype": "float32" if r.arm == Arm.CONTROL else "bfloat16"})
        for r in experiment.launches
    )
    verdict = JUDGE.verdict(BITS, replace(experiment.evidence(), launches=launches))
    assert verdict.outcome == Outcome.CONFOUNDED
    assert "dtype is float32 in the control, bfloat16 in the candidate" in verdict.reason


@pytest.mark.parametrize("metric", sorted(SCORED_METRICS))
def test_how_fast_the_arms_ran_confounds_no_claim_for_which_nothing_is_timed(metric: Metric) -> None:
    """A reference scored earlier tells no clock, and had another share of the machine."""
    plan = PLANS[metric]
    _, before, experiment = judged(plan, LIGHTER)
    clocks = {"gpu": {"sm_mhz": 1980, "memory_mhz": 2619}}
    launches = tuple(
        replace(r, resolved={"threads": 16}, environment={})
        if r.arm == Arm.CONTROL
        else replace(r, resolved={"threads": 32}, environment={"blocks": [{"before": clocks}]})
        for r in experiment.launches
    )
    verdict = JUDGE.verdict(plan, replace(experiment.evidence(), launches=launches))
    assert (verdict.outcome, verdict.reason) == (before.outcome, before.reason)
    assert verdict.outcome != Outcome.CONFOUNDED


def test_a_candidate_that_did_not_run_is_infeasible() -> None:
    failed = Evidence((), NOTHING_KNOWN, CORPUS, failure="no compiler was found")
    assert JUDGE.next_step(BITS, failed) == Stop("The candidate did not run: no compiler was found.")
    assert JUDGE.verdict(BITS, failed).outcome == Outcome.INFEASIBLE


def test_a_document_that_went_through_the_timed_path_too_is_counted_once() -> None:
    _, _, experiment = judged(BITS, fewer_bits())
    again = tuple(
        replace(
            r,
            samples=(
                *r.samples,
                *(
                    Sample(0, 0, "decode:d0", 99, metric, 0.5)
                    for metric in (Metric.NLL_BITS, Metric.KL_NATS, Metric.TOP1_AGREEMENT)
                ),
            ),
        )
        for r in experiment.launches
    )
    evidence = experiment.evidence()
    stages = (Stage.EVALUATE, Stage.VALIDATION)
    assert scored_effect(Metric.NLL_BITS, evidence, stages, 0.0125) == scored_effect(
        Metric.NLL_BITS, replace(evidence, launches=again), stages, 0.0125
    )
    report = quality_report(BITS, replace(evidence, launches=again))
    assert report == quality_report(BITS, evidence)
    assert report.bits is not None
    assert report.bits.count == 2 * BITS.workload.evaluation_documents


def scored(values: dict[str, list[float]], arm: Arm, stage: Stage) -> LaunchRecord:
    """A launch in which both arms scored the same values; the items of stages differ."""
    samples = tuple(
        Sample(0, 0, f"{stage.value}{k}", k, Metric(metric), value)
        for metric, found in values.items()
        for k, value in enumerate(found)
    )
    return LaunchRecord(arm, 0, stage, arm.value, {}, {}, 1.0, samples)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(1.0, 1e6), min_size=1, max_size=40),
    st.lists(st.sampled_from([0.0, 1.0]), max_size=60),
    st.sampled_from(sorted(SCORED_METRICS)),
    st.floats(1e-6, 0.5),
    st.booleans(),
)
def test_two_arms_that_score_exactly_alike_are_never_supported(
    bits: list[float], correct: list[float], metric: Metric, min_effect: float, validated: bool
) -> None:
    values = {"nll_bits": bits, "task_correct": correct, "step_weight_bytes": bits[:1]}
    stages = (Stage.EVALUATE, Stage.VALIDATION) if validated else (Stage.EVALUATE,)
    launches = tuple(scored(values, arm, stage) for arm in Arm for stage in stages)
    plan = PLANS[metric].model_copy(update={"min_effect": min_effect})
    evidence = Evidence(launches, NOTHING_KNOWN, CORPUS)
    verdict = JUDGE.verdict(plan, evidence)
    assert verdict.outcome != Outcome.SUPPORTED
    assert (
        validated == isinstance(JUDGE.next_step(plan, evidence), Stop)
        or "smaller than" in verdict.reason
        or ("Too few" in verdict.reason)
    )
    if verdict.effect_log is not None:
        assert verdict.effect_log == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("items", [150, 300, 600])
def test_a_gain_of_exactly_min_effect_in_tasks_passes_no_more_often_than_a_side_of_the_interval_allows(
    items: int,
) -> None:
    """Exact size of the superiority test at alpha / 4, by enumeration, where the true gain is two points."""
    gain, most, a_side = 0.02, 60, PLAN.alpha / 4
    lost, gained = np.meshgrid(np.arange(most), np.arange(most), indexing="ij")
    passes = np.zeros((most, most), dtype=bool)
    for b in range(most):
        for c in range(most):
            if c - b > gain * items:  # the bound is never below the estimate
                passes[b, c] = tango_upper(b, c, items, a_side) < -gain
    counts = np.stack([lost, gained, items - lost - gained], axis=-1)
    for share_lost in (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03):
        chances = [share_lost, share_lost + gain, 1 - 2 * share_lost - gain]
        assert multinomial.pmf(counts, items, chances)[passes].sum() <= a_side

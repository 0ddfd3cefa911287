"""What a check of drafting makes of a verdict, and what is told of acceptance."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.judge.drafting import DraftingReport, arm_is_due, drafting_report
from agent.judge.launch_interval import LaunchIntervalJudge
from agent.judge.quality import Quality, quality_report
from experiments.measurement.content_prompts import CONTENT_CLASSES
from experiments.measurement.evidence import (
    Arm,
    Evidence,
    LaunchRecord,
    Metric,
    NoiseProfile,
    Sample,
    Stage,
)
from experiments.measurement.judging import Evaluate, MeasurePair, Outcome, Stop
from experiments.space.configuration import Change
from tests.simulation.experiment import PLAN, SimulatedExperiment, Truth

JUDGE = LaunchIntervalJudge()
KNOWN = NoiseProfile("target", Metric.TPOT_MS, 9, 8, 0.002)
MTP = (Change("drafting.draft_tokens", None, 2), Change("drafting.method", "none", "mtp"))
NGRAM = (Change("drafting.draft_tokens", None, 2), Change("drafting.method", "none", "ngram"))
FAST = Truth(
    effect_log=math.log(0.7),
    launch_sd=0.002,
    disturbance_sd=0.001,
    request_sd=0.001,
    interruption_chance=0.0,
    bits_document_sd=0.0,
    changes=MTP,
)
STEPS = (3, 3, 2, 1, 3, 3, 2, 3)


def check(
    steps: tuple[int, ...] = STEPS,
    prompts: int = 8,
    divergences: int = 0,
    near_ties: int = 0,
    flips: int = 0,
) -> tuple[Sample, ...]:
    """The samples of a check; counts are of the first prompt, the others have none."""
    samples: list[Sample] = []
    for content in CONTENT_CLASSES:
        for number in range(prompts):
            first = content == CONTENT_CLASSES[0] and number == 0
            item = f"{content}:{number}"
            counts = {
                Metric.CHECKED_TOKENS: 63.0,
                Metric.DIVERGENCES: float(divergences * first),
                Metric.NEAR_TIES: float(near_ties * first),
                Metric.NEAR_TIE_LOGITS: 0.02,
                Metric.FLIPS_WITHOUT_DRAFT: float(flips * first),
            }
            values = [*((Metric.STEP_TOKENS, float(tokens)) for tokens in steps), *counts.items()]
            samples += [Sample(1, 0, item, seq, metric, value) for seq, (metric, value) in enumerate(values)]
    return tuple(samples)


def experiment(truth: Truth = FAST) -> SimulatedExperiment:
    """A fast candidate, timed once and evaluated, its drafting not yet checked."""
    found = SimulatedExperiment(PLAN, truth, np.random.default_rng(1), KNOWN)
    found.take(MeasurePair(Stage.QUICK, 4))
    found.take(Evaluate())
    return found


def checked(samples: tuple[Sample, ...], truth: Truth = FAST, control: tuple[Sample, ...] = ()) -> Evidence:
    found = experiment(truth)
    added = {Arm.CANDIDATE: samples, Arm.CONTROL: control}
    launches = tuple(
        replace(record, samples=record.samples + added[record.arm])
        if record.stage == Stage.EVALUATE
        else record
        for record in found.launches
    )
    return replace(found.evidence(), launches=launches)


def test_drafting_that_keeps_the_text_goes_on_to_the_validation() -> None:
    evidence = checked(check())
    assert quality_report(PLAN, evidence).state == Quality.HELD
    assert JUDGE.next_step(PLAN, evidence) == MeasurePair(Stage.VALIDATION, PLAN.full_blocks)
    assert "drafting keeps the text" in quality_report(PLAN, evidence).sentence()


@pytest.mark.parametrize(
    ("divergences", "near_ties", "flips", "changes"),
    [
        (0, 0, 0, False),
        (1, 0, 0, True),
        (1, 0, 1, True),
        (1, 0, 30, True),
        (1, 5, 10, True),
        (0, 6, 0, False),
        (0, 7, 0, True),
        (0, 12, 10, False),
        (0, 40, 10, True),
        (0, 0, 30, False),
    ],
)
def test_any_divergence_changes_the_text_and_near_ties_when_more_turn_than_without_a_draft(
    divergences: int, near_ties: int, flips: int, changes: bool
) -> None:
    evidence = checked(check(divergences=divergences, near_ties=near_ties, flips=flips))
    report = drafting_report(evidence)
    assert report is not None
    assert report.changes_text is changes
    assert JUDGE.verdict(PLAN, evidence).outcome == (Outcome.REFUTED if changes else Outcome.INCONCLUSIVE)


def test_changed_text_is_refuted_as_worse_quality_with_its_numbers() -> None:
    evidence = checked(check(divergences=3, near_ties=2))
    step = JUDGE.next_step(PLAN, evidence)
    assert isinstance(step, Stop)
    verdict = JUDGE.verdict(PLAN, evidence)
    assert verdict.outcome == Outcome.REFUTED
    assert verdict.quality["state"] == "worse"
    for part in ("drafting changes the text", "3 divergences and 2 near-ties in 1,512 tokens"):
        assert part in verdict.reason
    assert step.reason == verdict.reason


@pytest.mark.parametrize("steps", [(1,) * 40, (1,) * 39 + (3,)])
def test_drafts_that_hardly_ever_stand_are_infeasible_as_with_a_dropped_head(steps: tuple[int, ...]) -> None:
    verdict = JUDGE.verdict(PLAN, checked(check(steps)))
    assert verdict.outcome == Outcome.INFEASIBLE
    assert "as with a dropped head" in verdict.reason
    assert "at most 1.05" in verdict.reason


BOTH_DRAFT = replace(FAST, changes=(Change("drafting.draft_tokens", 1, 2),))


@pytest.mark.parametrize(
    ("control", "told"),
    [
        (check(divergences=3), "its drafting changes the text (3 divergences"),
        (check((1,) * 40), "its drafts hardly ever stand: 1.00 tokens a step"),
    ],
)
def test_a_control_whose_drafting_does_not_do_its_work_is_none_to_compare_with(
    control: tuple[Sample, ...], told: str
) -> None:
    evidence = checked(check(), BOTH_DRAFT, control)
    step = JUDGE.next_step(PLAN, evidence)
    assert isinstance(step, Stop)
    assert step.failed == Arm.CONTROL
    assert told in step.reason
    assert JUDGE.verdict(PLAN, evidence).outcome == Outcome.INFEASIBLE


def test_a_candidate_that_does_not_draft_leaves_the_drafting_of_its_control_to_be_checked() -> None:
    off = (Change("drafting.draft_tokens", 2, None), Change("drafting.method", "mtp", "none"))
    truth = replace(FAST, changes=off)
    assert arm_is_due(experiment(truth).evidence(), Arm.CONTROL)
    assert quality_report(PLAN, checked((), truth)).state == Quality.UNDECIDED
    assert quality_report(PLAN, checked((), truth, check())).state == Quality.HELD


def test_both_arms_that_draft_are_told_apart() -> None:
    unchecked = JUDGE.verdict(PLAN, checked(check(), BOTH_DRAFT))
    assert unchecked.outcome == Outcome.INCONCLUSIVE
    assert "in the control drafting was not checked" in unchecked.reason
    evidence = checked(check((3, 3, 2)), BOTH_DRAFT, check((2, 2, 1)))
    assert JUDGE.next_step(PLAN, evidence) == MeasurePair(Stage.VALIDATION, PLAN.full_blocks)
    told = JUDGE.verdict(PLAN, evidence).quality
    lengths = [
        found["acceptance_length"]
        for arm in ("control_drafting", "drafting")
        if isinstance(found := told[arm], dict)
    ]
    assert lengths == pytest.approx([5 / 3, 8 / 3])


def test_what_a_reference_that_is_not_the_control_resolved_to_says_nothing_of_the_control() -> None:
    found = experiment(replace(FAST, changes=(Change("quantization.bits", 8, 4),)))
    launches = tuple(
        replace(record, resolved={"drafting": {"method": "mtp"}})
        if (record.arm, record.stage) == (Arm.CONTROL, Stage.EVALUATE)
        else record
        for record in found.launches
    )
    assert not arm_is_due(replace(found.evidence(), launches=launches), Arm.CONTROL)


def test_a_dropped_head_is_found_in_the_timed_run_before_its_latency_refutes_it() -> None:
    slow = replace(FAST, effect_log=math.log(1.3))
    found = SimulatedExperiment(PLAN, slow, np.random.default_rng(1), KNOWN)
    found.take(MeasurePair(Stage.QUICK, 4))
    assert "smaller than the 3 % asked for" in JUDGE.verdict(PLAN, found.evidence()).reason
    launches = timed(found, (1,) * 10)
    verdict = JUDGE.verdict(PLAN, replace(found.evidence(), launches=launches))
    assert verdict.outcome == Outcome.INFEASIBLE
    assert "as with a dropped head" in verdict.reason


def timed(found: SimulatedExperiment, steps: tuple[int, ...]) -> tuple[LaunchRecord, ...]:
    """The launches so far; a request of the candidate has these steps, TTFT 20 ms and 120 ms in all."""
    launches = []
    for record in found.launches:
        more = [
            Sample(s.block, s.position, s.item, s.seq, metric, value)
            for s in record.samples
            if record.arm == Arm.CANDIDATE and s.metric == Metric.TPOT_MS
            for metric, value in (
                (Metric.TTFT_MS, 20.0),
                (Metric.E2EL_MS, 120.0),
                *((Metric.STEP_TOKENS, float(tokens)) for tokens in steps),
            )
        ]
        launches.append(replace(record, samples=(*record.samples, *more)))
    return tuple(launches)


def test_few_matches_of_an_n_gram_are_no_dropped_head() -> None:
    verdict = JUDGE.verdict(PLAN, checked(check((1,) * 40), replace(FAST, changes=NGRAM)))
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert "dropped" not in verdict.reason


def test_too_few_prompts_of_a_class_leave_it_open() -> None:
    verdict = JUDGE.verdict(PLAN, checked(check(prompts=3)))
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert "too few prompts (3 code, 3 prose, 3 instruct; 4 of each are needed)" in verdict.reason


def test_an_evaluation_without_the_check_leaves_it_open() -> None:
    verdict = JUDGE.verdict(PLAN, experiment().evidence())
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert "drafting was not checked" in verdict.reason


@pytest.mark.parametrize(
    ("changes", "drafts", "due"),
    [
        (MTP, False, True),
        ((Change("drafting.method", "mtp", "none"), Change("drafting.draft_tokens", 2, None)), False, False),
        ((Change("drafting.draft_tokens", 1, 2),), False, True),
        ((Change("quantization.bits", 8, 4),), True, True),
        ((Change("pruning.layers_removed", 1, 2),), True, True),
        ((Change("quantization.bits", 8, 4),), False, False),
        ((Change("serving.dtype", "float32", "bfloat16"),), True, True),
        ((Change("serving.compile", "off", "default"),), True, True),
        ((Change("serving.compile", "off", "default"),), False, False),
        ((Change("serving.threads", 1, 2),), True, False),
        ((Change("serving.kv_cache_dtype", "auto", "fp8"),), True, True),
        ((Change("serving.prefix_caching", "off", "on"),), True, True),
        ((Change("serving.moe_backend", "auto", "triton"),), True, True),
        ((Change("serving.max_sequences", 16, 1),), True, False),
    ],
)
def test_the_check_is_due_where_drafting_or_what_it_drafts_for_changed(
    changes: tuple[Change, ...], drafts: bool, due: bool
) -> None:
    found = SimulatedExperiment(PLAN, replace(FAST, changes=changes), np.random.default_rng(1), KNOWN)
    found.take(MeasurePair(Stage.QUICK, 2))
    launches = timed(found, STEPS) if drafts else tuple(found.launches)
    assert arm_is_due(replace(found.evidence(), launches=launches), Arm.CANDIDATE) is due


def test_a_verdict_tells_acceptance_by_position_and_class_and_where_it_breaks_even() -> None:
    found = experiment()
    samples = tuple(
        replace(sample, value=1.0)
        if sample.metric == Metric.STEP_TOKENS and sample.item.startswith("prose")
        else sample
        for sample in check((3, 2, 1, 2))
    )
    launches = tuple(
        replace(r, samples=r.samples + samples) if (r.arm, r.stage) == (Arm.CANDIDATE, Stage.EVALUATE) else r
        for r in timed(found, (2, 2, 3, 3))
    )
    verdict = JUDGE.verdict(PLAN, replace(found.evidence(), launches=launches))
    told = verdict.quality["drafting"]
    assert isinstance(told, dict)
    assert told["acceptance_length"] == pytest.approx((2 + 2 + 1) / 3)
    assert told["acceptance_by_position"] == pytest.approx([2 / 3 * 3 / 4, 2 / 3 * 1 / 4])
    assert told["acceptance_length_by_class"] == {"code": 2.0, "instruct": 2.0, "prose": 1.0}
    assert told["acceptance_by_class_and_position"] == {
        "code": [0.75, 0.25],
        "instruct": [0.75, 0.25],
        "prose": [0.0, 0.0],
    }
    control = [v for r in launches if r.arm == Arm.CONTROL for v in r.values(Metric.TPOT_MS)]
    assert told["break_even_acceptance_length"] == pytest.approx(25.0 / float(np.median(control)))
    assert told["draws_level_acceptance_length"] == told["break_even_acceptance_length"]
    assert told["prompts"] == {"code": 8, "instruct": 8, "prose": 8}
    assert told["near_tie_logits"] == 0.02


def test_drafting_pays_by_its_length_exactly_where_it_pays_by_tpot() -> None:
    """Steps of 4 tokens whose last is cut: 10 tokens after the first, 3 steps of 25 ms."""
    found = experiment()
    launches = []
    for record in found.launches:
        samples = tuple(s for s in record.samples if s.metric != Metric.TPOT_MS)
        for k in range(4) if record.stage == Stage.QUICK else ():
            tpot_ms = 8.0 if record.arm == Arm.CONTROL else 7.5
            values = [
                (Metric.TPOT_MS, tpot_ms),
                (Metric.TTFT_MS, 20.0),
                (Metric.E2EL_MS, 20.0 + 10 * tpot_ms),
            ]
            if record.arm == Arm.CANDIDATE:
                values += [(Metric.STEP_TOKENS, 4.0)] * 3
            samples += tuple(Sample(k, k, "p", 9 * k + n, metric, v) for n, (metric, v) in enumerate(values))
        launches.append(replace(record, samples=samples))
    report = drafting_report(replace(found.evidence(), launches=tuple(launches)))
    assert report is not None
    assert report.acceptance == pytest.approx(10 / 3), "not 4: TPOT counts the tokens that were kept"
    assert report.by_position == (1.0, 1.0, 1.0)
    assert report.step_ms == pytest.approx(25.0)
    assert report.break_even == pytest.approx(25.0 / 8.0)
    assert report.acceptance / (report.break_even or 0) == pytest.approx(8.0 / 7.5), "the ratio of TPOTs"


def test_a_checked_text_counts_the_tokens_it_kept() -> None:
    cut = tuple(
        replace(sample, value=62.0) if sample.metric == Metric.CHECKED_TOKENS else sample
        for sample in check((3,) * 21)
    )
    report = drafting_report(checked(cut))
    assert report is not None
    assert report.acceptance == pytest.approx(62 / 21)
    assert set(report.by_class.values()) == {report.acceptance}


def test_a_control_that_drafts_has_no_tpot_to_break_even_with_but_one_to_draw_level_with() -> None:
    found = SimulatedExperiment(PLAN, BOTH_DRAFT, np.random.default_rng(1), KNOWN)
    found.take(MeasurePair(Stage.QUICK, 4))
    evidence = replace(found.evidence(), launches=timed(found, STEPS))
    report = drafting_report(evidence)
    assert report is not None
    assert report.step_ms is not None
    assert report.break_even is None
    control = [v for r in evidence.of(Arm.CONTROL) for v in r.values(Metric.TPOT_MS)]
    assert report.draws_level == pytest.approx(report.step_ms / float(np.median(control)))
    without = drafting_report(replace(evidence, changes=MTP))
    assert without is not None
    assert without.break_even is not None
    compiled = (*MTP, Change("serving.compile", "off", "cpp_wrapper"))
    with_more = drafting_report(replace(evidence, changes=compiled))
    assert with_more is not None
    assert with_more.break_even is None, "the compiler's gain is no reason to draft"
    assert with_more.draws_level == without.break_even


def test_decoding_without_drafting_tells_nothing_of_it() -> None:
    truth = replace(FAST, changes=(Change("serving.threads", 1, 2),))
    evidence = experiment(truth).evidence()
    assert drafting_report(evidence) is None
    assert "drafting" not in JUDGE.verdict(PLAN, evidence).quality


counts = st.integers(0, 200)


@given(counts, counts)
def test_near_ties_that_turn_no_more_tokens_than_none_never_change_the_text_and_a_divergence_always_does(
    near_ties: int, more_flips: int
) -> None:
    report = DraftingReport(
        acceptance=2.0,
        steps=100,
        by_position=(),
        by_class={},
        by_class_and_position={},
        prompts=dict.fromkeys(CONTENT_CLASSES, 8),
        checked_tokens=1000,
        divergences=0,
        near_ties=near_ties,
        flips_without_draft=near_ties + more_flips,
        near_tie_logits=0.1,
        draws_level=None,
        break_even=None,
        dropped=False,
    )
    assert not report.changes_text
    assert replace(report, divergences=1).changes_text


def test_a_quantized_arm_whose_latency_stands_for_the_engine_alone_says_so() -> None:
    truth = replace(FAST, changes=(Change("quantization.method", "none", "rtn"),))
    found = experiment(truth)
    told = tuple(
        replace(r, resolved={**r.resolved, "weights": {"latency_representative": r.arm == Arm.CONTROL}})
        for r in found.launches
    )
    verdict = JUDGE.verdict(PLAN, replace(found.evidence(), launches=told))
    assert "this latency stands for this engine only" in verdict.reason
    assert "stands for" not in JUDGE.verdict(PLAN, found.evidence()).reason

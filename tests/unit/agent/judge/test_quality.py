"""Non-inferiority of quality, paired per document and item."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multinomial

from agent.judge.launch_interval import LaunchIntervalJudge
from agent.judge.noninferiority import MIN_DOCUMENTS, Quality, bits_bound, kl_bound, task_bound
from agent.judge.quality import quality_report
from experiments.measurement.evidence import Arm, Evidence, Metric, Sample, Stage
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import StoppingPlan, Workload
from experiments.space.configuration import Change
from tests.simulation.experiment import COMPILED, PLAN, SimulatedExperiment, Truth, profile_of, run

DRAFTED = (Change("drafting.method", "none", "mtp"), Change("drafting.draft_tokens", None, 2))


def evidence(truth: Truth, plan: StoppingPlan = PLAN, stage: Stage = Stage.EVALUATE) -> Evidence:
    rng = np.random.default_rng(3)
    experiment = SimulatedExperiment(plan, truth, rng, profile_of(plan, truth, 1, rng))
    experiment._evaluate(stage)
    return experiment.evidence()


def test_equal_quality_is_held() -> None:
    report = quality_report(PLAN, evidence(Truth(bits_document_sd=0.0)))
    assert report.state == Quality.HELD
    assert report.bits is not None
    assert report.bits.difference == pytest.approx(0)


def test_a_loss_of_three_percent_is_worse_with_confidence() -> None:
    report = quality_report(PLAN, evidence(Truth(bits_log=0.03)))
    assert report.state == Quality.WORSE
    assert "bits per byte +3." in report.sentence()


def test_a_loss_near_the_margin_is_undecided_and_no_pass() -> None:
    assert quality_report(PLAN, evidence(Truth(bits_log=0.0095))).state == Quality.UNDECIDED


def test_bits_that_differ_wildly_between_documents_are_undecided_and_no_pass() -> None:
    assert quality_report(PLAN, evidence(Truth(bits_document_sd=0.2))).state == Quality.UNDECIDED


def test_too_few_documents_are_undecided_even_when_equal() -> None:
    few = PLAN.model_copy(update={"workload": Workload(evaluation_documents=MIN_DOCUMENTS - 1)})
    assert quality_report(few, evidence(Truth(bits_document_sd=0.0), few)).state == Quality.UNDECIDED


def test_too_few_items_are_undecided_even_when_all_are_right() -> None:
    few = PLAN.model_copy(update={"workload": Workload(evaluation_items=50)})
    report = quality_report(few, evidence(Truth(bits_document_sd=0.0), few))
    assert report.tasks is not None
    assert report.tasks.difference == 0
    assert report.state == Quality.UNDECIDED


def test_twenty_items_lost_of_200_are_worse_with_confidence() -> None:
    assert quality_report(PLAN, evidence(Truth(tasks_lost=20))).state == Quality.WORSE


def test_items_that_were_asked_for_and_are_missing_are_undecided() -> None:
    whole = evidence(Truth(bits_document_sd=0.0))
    plan = PLAN.model_copy(update={"workload": Workload(evaluation_items=0)})
    without = evidence(Truth(bits_document_sd=0.0), plan)
    assert quality_report(plan, without).state == Quality.HELD
    assert quality_report(PLAN, without).state == Quality.UNDECIDED
    assert quality_report(PLAN, whole).state == Quality.HELD


def test_nothing_measured_is_said_to_be_nothing() -> None:
    nothing = Evidence((), evidence(Truth()).noise, ())
    assert quality_report(PLAN, nothing).state == Quality.NOT_MEASURED


def test_a_reference_that_solves_nothing_is_said_to_have_nothing_to_lose() -> None:
    whole = evidence(Truth(bits_document_sd=0.0, tasks_gained=PLAN.workload.evaluation_items))
    assert "too few to lose" in quality_report(PLAN, whole).sentence()


@given(st.lists(st.floats(100, 1000), min_size=8, max_size=40), st.floats(0.9, 1.1))
def test_a_uniform_ratio_of_bits_has_no_error(control: list[float], ratio: float) -> None:
    bound = bits_bound(control, [ratio * bits for bits in control], margin=0.01, alpha=0.05)
    assert bound is not None
    assert bound.high == pytest.approx(ratio - 1, abs=1e-9)


def test_the_bound_on_bits_covers_the_truth_at_its_level() -> None:
    rng = np.random.default_rng(5)
    above = 0
    for _ in range(2000):
        control = rng.uniform(500, 1500, 32)
        candidate = control * np.exp(rng.normal(0.01, 0.02, 32))
        bound = bits_bound(control.tolist(), candidate.tolist(), margin=0.01, alpha=0.05)
        assert bound is not None
        above += bound.high >= math.exp(0.01 + 0.02**2 / 2) - 1
    assert above / 2000 >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 2000)


@pytest.mark.parametrize("items", [150, 300, 600])
def test_a_loss_of_the_whole_margin_passes_with_five_percent_at_most(items: int) -> None:
    """Exact size of the task test, by enumeration, where the true net loss is the margin of 2 points."""
    margin, most = 0.02, 60
    lost, gained = np.meshgrid(np.arange(most), np.arange(most), indexing="ij")
    passes = np.zeros((most, most), dtype=bool)
    for b in range(most):
        for c in range(most):
            bound = task_bound(lost=b, gained=c, items=items, margin_points=100 * margin, alpha=0.05)
            passes[b, c] = bound is not None and bound.state == Quality.HELD
    counts = np.stack([lost, gained, items - lost - gained], axis=-1)
    for share_gained in (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03):
        chances = [share_gained + margin, share_gained, 1 - 2 * share_gained - margin]
        assert multinomial.pmf(counts, items, chances)[passes].sum() <= 0.05


@given(st.integers(0, 40), st.integers(0, 40), st.integers(100, 400))
def test_the_task_bounds_enclose_the_difference_and_widen_with_confidence(
    lost: int, gained: int, items: int
) -> None:
    wide = task_bound(lost=lost, gained=gained, items=items, margin_points=2.0, alpha=0.01)
    narrow = task_bound(lost=lost, gained=gained, items=items, margin_points=2.0, alpha=0.05)
    assert wide is not None
    assert narrow is not None
    assert wide.low <= narrow.low <= narrow.difference <= narrow.high <= wide.high


def test_documents_of_one_arm_alone_count_for_nothing() -> None:
    whole = evidence(Truth())
    half = tuple(record for record in whole.launches if record.arm == Arm.CANDIDATE)
    assert quality_report(PLAN, Evidence(half, whole.noise, ())).bits is None


def asked_for(documents: int, items: int) -> StoppingPlan:
    work = Workload(evaluation_documents=documents, evaluation_items=items)
    return PLAN.model_copy(update={"workload": work})


@pytest.mark.parametrize("stage", [Stage.SCREEN, Stage.EVALUATE])
def test_what_was_asked_for_and_could_not_be_measured_is_undecided_once_it_was_tried(stage: Stage) -> None:
    plan = asked_for(MIN_DOCUMENTS - 1, 0)
    tried = evidence(Truth(bits_document_sd=0.0), plan, stage)
    report = quality_report(plan, tried)
    assert (report.bits, report.tasks) == (None, None)
    assert report.state == Quality.UNDECIDED
    assert "fewer than 8 paired documents" in report.sentence()


@pytest.mark.parametrize("changes", [COMPILED, DRAFTED])
@pytest.mark.parametrize("bits_log", [0.0, 0.2])
def test_a_gain_whose_quality_could_not_be_measured_is_never_supported(
    changes: tuple[Change, ...], bits_log: float
) -> None:
    truth = Truth(effect_log=math.log(0.7), bits_log=bits_log, bits_document_sd=0.0, changes=changes)
    plan = asked_for(MIN_DOCUMENTS - 1, 0)
    verdict, _ = run(LaunchIntervalJudge(), plan, truth, np.random.default_rng(2))
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert "do not settle the quality" in verdict.reason
    enough, _ = run(LaunchIntervalJudge(), asked_for(MIN_DOCUMENTS, 0), truth, np.random.default_rng(2))
    if changes == COMPILED:
        assert enough.outcome == (Outcome.SUPPORTED if bits_log == 0 else Outcome.REFUTED)


@pytest.mark.parametrize("lost_before", [0, 150])
def test_items_that_were_solved_when_the_weights_were_screened_are_not_blamed_on_the_weights(
    lost_before: int,
) -> None:
    """Scores that vLLM took of its drafter looked like a ruined model: 8.8 % in place of 87.8 %."""
    screened = evidence(Truth(tasks_lost=lost_before), PLAN, Stage.SCREEN)
    served = evidence(Truth(tasks_lost=150), PLAN, Stage.EVALUATE)
    both = replace(served, launches=(*screened.launches, *served.launches))
    verdict = LaunchIntervalJudge().verdict(PLAN, both)
    assert (verdict.outcome, "tasks −" in verdict.reason) == (Outcome.REFUTED, True)
    told = "the same weights solved 75.0 points more of 200 items when they were screened, served plainly"
    assert (told in verdict.reason) is (lost_before == 0), verdict.reason


def with_kl(found: Evidence, nats: float, spread: float = 0.0) -> Evidence:
    """The evidence with a KL of each document of the candidate, around `nats`."""
    launches = []
    for record in found.launches:
        names = [sample.item for sample in record.samples if sample.metric == Metric.NLL_BITS]
        told = tuple(
            Sample(0, 0, name, place, Metric.KL_NATS, nats + spread * (-1) ** place)
            for place, name in enumerate(names)
        )
        launches.append(
            replace(record, samples=record.samples + told) if record.arm == Arm.CANDIDATE else record
        )
    return replace(found, launches=tuple(launches))


def kl_margin(margin: float | None, plan: StoppingPlan = PLAN) -> StoppingPlan:
    return plan.model_copy(update={"margins": plan.margins.model_copy(update={"kl_nats": margin})})


@pytest.mark.parametrize(
    ("nats", "spread", "margin", "expected"),
    [
        (2.0, 0.1, 1.0, Quality.WORSE),
        (2.0, 0.1, None, Quality.HELD),
        (0.2, 0.1, 1.0, Quality.HELD),
        (1.05, 1.0, 1.0, Quality.HELD),
    ],
)
def test_kl_refutes_where_it_is_beyond_its_margin_with_confidence_and_decides_nothing_else(
    nats: float, spread: float, margin: float | None, expected: Quality
) -> None:
    plan = kl_margin(margin)
    report = quality_report(plan, with_kl(evidence(Truth(bits_document_sd=0.0)), nats, spread))
    assert report.state == expected
    assert ("KL to the reference 2 nats a token" in report.sentence()) == (expected == Quality.WORSE)


def test_a_small_kl_passes_nothing() -> None:
    worse = with_kl(evidence(Truth(bits_log=0.03)), 0.0)
    assert quality_report(kl_margin(1.0), worse).state == Quality.WORSE
    open_ = with_kl(evidence(Truth(bits_log=0.0095)), 0.0)
    assert quality_report(kl_margin(1.0), open_).state == Quality.UNDECIDED
    assert kl_bound([0.0] * (MIN_DOCUMENTS - 1), margin=1.0, alpha=0.05) is None


def test_a_claim_on_quality_itself_is_not_held_to_the_kl_of_its_control() -> None:
    better = with_kl(evidence(Truth(bits_document_sd=0.0)), 2.0)
    claim = kl_margin(1.0, PLAN.model_copy(update={"metric": Metric.NLL_BITS}))
    assert quality_report(claim, better).state == Quality.HELD
    weight = kl_margin(1.0, PLAN.model_copy(update={"metric": Metric.STEP_WEIGHT_BYTES}))
    assert quality_report(weight, better).state == Quality.WORSE

"""An A/A series of a known truth says of each assumption what is so, or that it cannot say."""

import numpy as np
import pytest

from agent.judge.assumptions import AaReport, Assumption, Status, report
from agent.judge.launch_interval import LaunchIntervalJudge
from experiments.measurement.plan import Prediction, StoppingPlan, Workload
from tests.unit.agent.judge.aa_series import AaTruth, a_series

PLAN = StoppingPlan(
    prediction=Prediction(log_ratio_mean=0.0, log_ratio_sd=1.0),
    workload=Workload(evaluation_documents=32, evaluation_items=300),
)

UNIT, REQUESTS, PAIRS, DRIFT = (
    "launch is the unit",
    "requests are independent",
    "pairs are independent",
    "no drift",
)
NORMAL, SEATS, ORDER = "pair effects are normal", "seats are alike", "order is alike"


def said(truth: AaTruth, pairs: int, condition: str | None = None, seed: int = 3) -> AaReport:
    series = a_series(truth, pairs, np.random.default_rng(seed), contrasted=condition is not None)
    return report(series, PLAN, LaunchIntervalJudge(), truth.blocks, condition)


def of(found: AaReport, name: str) -> Assumption:
    return next(each for each in found.assumptions if each.name == name)


def test_a_quiet_machine_holds_everything() -> None:
    found = said(AaTruth(launch_sd=0.005), 150)
    told = {each.name: each.status for each in found.assumptions}
    assert told == dict.fromkeys(told, Status.HOLDS)
    assert found.launch_sd is not None
    assert found.launch_sd.low is not None
    assert found.launch_sd.high is not None
    assert found.launch_sd.low < 0.0052 < found.launch_sd.high  # sqrt(0.5 %² + 0.4 %² / 8)
    assert (found.pairs, found.samples) == (150, 8)


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        (UNIT, AaTruth(launch_sd=0.0002, request_sd=0.03)),
        (REQUESTS, AaTruth(request_correlation=0.8)),
        (PAIRS, AaTruth(pair_correlation=0.8)),
        (DRIFT, AaTruth(drift_an_hour=0.2)),
        (NORMAL, AaTruth(heavy=True)),
        (SEATS, AaTruth(second_seat=0.03)),
        (ORDER, AaTruth(later_block=0.03)),
    ],
)
def test_what_is_broken_is_found_and_the_rest_is_not_blamed_for_it(name: str, truth: AaTruth) -> None:
    found = said(truth, 150)
    assert of(found, name).status is Status.FAILS
    assert of(found, name).estimate is not None
    blamed = {each.name for each in found.assumptions if each.status is Status.FAILS} - {name}
    assert not blamed


@pytest.mark.parametrize("pairs", [0, 1, 2, 3])
def test_of_few_pairs_nothing_is_claimed(pairs: int) -> None:
    found = said(AaTruth(launch_sd=0.03, request_sd=0.03, block_sd=0.03), pairs)
    assert {each.status for each in found.assumptions} == {Status.TOO_FEW}
    assert (found.launch_sd is None) == (pairs == 0)


def test_every_sentence_says_what_the_judge_does() -> None:
    for found in (said(AaTruth(), 1), said(AaTruth(), 40, "beside"), said(AaTruth(), 40, "alone")):
        for each in found.assumptions:
            assert each.sentence.endswith(".")
            assert "; " in each.sentence
            assert each.sentence[0].isupper()


def test_a_disturbance_is_measured_against_pairs_on_the_same_texts_and_kept_out_of_the_rest() -> None:
    disturbed = AaTruth(apart_shift=0.08, apart_launch_sd=0.05, prompt_sd=0.2)
    found = said(disturbed, 80, "beside")
    assert (found.pairs, found.pairs_apart) == (40, 40)
    contrast = found.contrast
    assert contrast is not None
    assert contrast.level is not None
    assert contrast.level.low is not None
    assert contrast.level.high is not None
    assert contrast.level.low < 0.08 < contrast.level.high
    assert contrast.level.n == 40
    assert contrast.sd_ratio is not None
    assert contrast.sd_ratio.low is not None
    assert contrast.sd_ratio.low > 2
    assert of(found, "nothing beside matters").status is Status.FAILS
    assert found.launch_sd is not None
    assert found.launch_sd.value < 0.015


def test_what_does_nothing_beside_is_said_to_do_nothing() -> None:
    found = said(AaTruth(), 120, "beside")
    assert of(found, "nothing beside matters").status is Status.HOLDS
    assert of(said(AaTruth(), 120, "alone"), "side by side is alone").status is Status.HOLDS
    assert of(said(AaTruth(launch_sd=0.05), 4, "beside"), "nothing beside matters").status is Status.TOO_FEW


def test_a_linear_drift_does_not_pass_for_an_effect_of_what_runs_beside() -> None:
    found = said(AaTruth(drift_an_hour=0.5, launch_sd=0.002), 64, "beside")
    assert of(found, "nothing beside matters").status is Status.HOLDS

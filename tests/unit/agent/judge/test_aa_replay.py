"""A/A pairs judged as claims: no pair counts twice, and what a judge believes of nothing is seen."""

from collections.abc import Sequence

import numpy as np
import pytest

from agent.judge.aa_replay import plan_of, replay
from agent.judge.launch_interval import LaunchIntervalJudge
from agent.judge.scale import bound_of
from experiments.measurement.evidence import Arm, Evidence, Metric, Stage
from experiments.measurement.judging import Evaluate, JudgeVerdict, MeasurePair, Outcome, Step, Stop
from experiments.measurement.plan import StoppingPlan
from tests.unit.agent.judge.aa_series import AaTruth, a_series
from tests.unit.agent.judge.test_assumptions import PLAN


class Watching:
    """A judge that takes two pairs, asks for the quality, and believes everything."""

    name, version = "watching", "1"

    def __init__(self) -> None:
        self.seen: list[Evidence] = []

    def next_step(self, plan: StoppingPlan, evidence: Evidence) -> Step:
        pairs = len(evidence.of(Arm.CONTROL, Stage.QUICK, Stage.VALIDATION))
        if pairs == 0:
            return MeasurePair(Stage.QUICK, plan.quick_blocks)
        if not evidence.of(Arm.CANDIDATE, Stage.EVALUATE):
            return Evaluate()
        if pairs == 1:
            return MeasurePair(Stage.VALIDATION, plan.full_blocks)
        self.seen.append(evidence)
        return Stop("enough")

    def verdict(self, plan: StoppingPlan, evidence: Evidence) -> JudgeVerdict:
        return JudgeVerdict(Outcome.SUPPORTED, "why not", -0.5, -0.6, -0.4, 4, 8, {}, {})


def texts_of(evidence: Evidence) -> set[str]:
    timed = evidence.of(Arm.CONTROL, Stage.QUICK, Stage.VALIDATION)
    return {sample.item for launch in timed for sample in launch.samples}


def test_pairs_are_handed_out_in_order_and_none_twice() -> None:
    judge = Watching()
    found = replay(a_series(AaTruth(), 7, np.random.default_rng(1)), PLAN, judge)
    assert [each.pairs for each in found.experiments] == [2, 2, 2]
    assert found.pairs_left == 1
    texts = [texts_of(each) for each in judge.seen]
    assert not texts[0] & texts[1]
    assert {item.partition(".")[0] for item in texts[2]} == {"4", "5"}


def test_an_experiment_knows_the_noise_of_the_pairs_before_it_alone() -> None:
    judge = Watching()
    replay(a_series(AaTruth(), 6, np.random.default_rng(1)), PLAN, judge)
    assert [each.noise.degrees_of_freedom for each in judge.seen] == [0, 2, 4]


def test_a_judge_that_believes_everything_is_seen_to() -> None:
    found = replay(a_series(AaTruth(), 6, np.random.default_rng(1)), PLAN, Watching())
    assert [each.outcome for each in found.experiments] == [Outcome.SUPPORTED] * 3
    assert (len(found.first_looks), found.first_beyond) == (6, 6)


def test_the_quality_is_answered_alike_for_both_arms() -> None:
    judge = Watching()
    replay(a_series(AaTruth(), 2, np.random.default_rng(1)), PLAN, judge)
    [evidence] = judge.seen
    scored = [evidence.of(arm, Stage.EVALUATE)[0].values(Metric.NLL_BITS) for arm in Arm]
    assert scored[0] == scored[1]
    assert len(scored[0]) == PLAN.workload.evaluation_documents


def test_pairs_measured_under_another_condition_are_no_experiments() -> None:
    series = a_series(AaTruth(), 8, np.random.default_rng(1), contrasted=True)
    found = replay(series, PLAN, Watching())
    assert len(found.first_looks) == 4
    assert len(found.experiments) == 2


@pytest.mark.parametrize("launch_sd", [0.005, 0.03])
def test_the_judge_supports_none_of_nothing_and_refutes_most_where_launches_vary_little(
    launch_sd: float,
) -> None:
    plan = plan_of(PLAN, 4).model_copy(update={"full_pairs": 4})
    found = replay(
        a_series(AaTruth(launch_sd=launch_sd), 120, np.random.default_rng(5)), plan, LaunchIntervalJudge()
    )
    outcomes: Sequence[Outcome] = [each.outcome for each in found.experiments]
    assert len(outcomes) > 20
    assert set(outcomes) <= {Outcome.REFUTED, Outcome.INCONCLUSIVE}
    if launch_sd < 0.01:
        assert outcomes.count(Outcome.REFUTED) > 0.8 * len(outcomes)


@pytest.mark.parametrize("second_seat", [-0.2, -0.05, 0.05, 0.2])
@pytest.mark.parametrize("pairs_before", [0, 1])
def test_a_seat_that_is_much_faster_is_taken_for_no_gain(second_seat: float, pairs_before: int) -> None:
    plan = plan_of(PLAN, 4)
    for seed in range(4):
        truth = AaTruth(second_seat=second_seat, launch_sd=0.005)
        series = a_series(truth, 60, np.random.default_rng(seed))[pairs_before:]
        found = replay(series, plan, LaunchIntervalJudge())
        assert Outcome.SUPPORTED not in [each.outcome for each in found.experiments]
        assert len(found.experiments) > 3


def test_the_plan_asks_for_the_blocks_that_there_are() -> None:
    plan = plan_of(PLAN, 2)
    assert (plan.quick_blocks, plan.full_blocks) == (2, 2)
    assert plan.prediction.log_ratio_mean == bound_of(PLAN)
    assert (plan.min_effect, plan.alpha) == (PLAN.min_effect, PLAN.alpha)

"""Predictions made before trials, and how they are scored."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from agent.replay.calibration import HALF_WIDTH_SD, Outcome, calibration, crps
from agent.replay.course import Budget, course
from agent.replay.planners.ours import OwnPlanner
from agent.replay.port import Problem, Told
from agent.replay.replay import Asked, Replayed
from agent.replay.report import CALIBRATION, calibration_row
from experiments.space.configuration import Configuration
from tests.unit.agent.replay.synthetic import table

PRIOR = (0.0, 1.0)


@given(st.floats(-2, 2), st.floats(0.05, 2), st.floats(-4, 4))
@settings(max_examples=40, deadline=None)
def test_crps_is_the_integral_that_defines_it(mean: float, sd: float, measured: float) -> None:
    normal = NormalDist(mean, sd)
    below, _ = quad(lambda x: normal.cdf(x) ** 2, mean - 12 * sd - 8, measured, limit=400)
    above, _ = quad(lambda x: (1 - normal.cdf(x)) ** 2, measured, mean + 12 * sd + 8, limit=400)
    assert crps((mean, sd), measured) == pytest.approx(below + above, abs=1e-5)


def test_no_other_normal_scores_better_in_the_mean_than_the_one_outcomes_come_from() -> None:
    drawn = np.random.default_rng(0).normal(1.0, 0.3, 4000).tolist()

    def mean_score(mean: float, sd: float) -> float:
        return math.fsum(crps((mean, sd), each) for each in drawn) / len(drawn)

    best = mean_score(1.0, 0.3)
    assert all(
        mean_score(*other) > best for other in [(1.0, 0.15), (1.0, 0.6), (0.8, 0.3), (1.2, 0.3), (1, 3)]
    )


@pytest.mark.parametrize(("sd", "share"), [(0.15, 0.4775), (0.3, 0.8), (0.6, 0.9896)])
def test_the_share_inside_is_that_of_the_normal(sd: float, share: float) -> None:
    """A forecast that is too narrow has fewer than 80 % inside, one that is too wide more."""
    drawn = np.random.default_rng(1).normal(0.0, 0.3, 2000).tolist()
    found = calibration({("t", str(k)): {0: Outcome(y, (0.0, sd), PRIOR)} for k, y in enumerate(drawn)})
    assert found is not None
    assert found.inside.low - 0.01 < share < found.inside.high + 0.01
    assert found.first_low - 0.01 < share < found.first_high + 0.01


def test_more_seeds_of_the_same_rows_are_no_more_rows() -> None:
    drawn = np.random.default_rng(2).normal(0.0, 0.3, 30).tolist()
    one = {("t", str(k)): {0: Outcome(y, (0.0, 0.3), PRIOR)} for k, y in enumerate(drawn)}
    many = {row: dict.fromkeys(range(50), found[0]) for row, found in one.items()}
    first, repeated = calibration(one), calibration(many)
    assert first is not None
    assert repeated is not None
    assert (repeated.outcomes, repeated.rows, repeated.first) == (1500, 30, 30)
    assert (repeated.inside, repeated.difference) == (first.inside, first.difference)


def test_workloads_of_one_configuration_are_drawn_together() -> None:
    """Eight workloads that tell the same are worth one."""
    drawn = np.random.default_rng(3).normal(0.0, 0.3, 30).tolist()
    told = {str(k): {0: Outcome(y, (0.0, 0.3), PRIOR)} for k, y in enumerate(drawn)}
    alone = calibration({("a", digest): found for digest, found in told.items()})
    together = calibration({(name, digest): found for name in "abcdefgh" for digest, found in told.items()})
    assert alone is not None
    assert together is not None
    assert (together.rows, together.configurations) == (240, 30)
    assert together.inside.low == pytest.approx(alone.inside.low)
    assert together.inside.high == pytest.approx(alone.inside.high)


class Knowing:
    """Asks in the order of the problem, and predicts what it was told last with a spread that tells how much
    it was told."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem, self.told = problem, list[Told]()

    def ask(self, history: tuple[Told, ...]) -> object:
        tried = {told.configuration for told in history}
        left = [each for each in self.problem.configurations if each not in tried]
        return left[0] if left else history[-1].configuration  # at the end the last once more

    def predict(self, configuration: object) -> tuple[float, float]:
        ran = [told for told in self.told if told.ran]
        return math.log(ran[-1].mean_ms), 0.5 / len(self.told)

    def tell(self, told: Told) -> None:
        self.told.append(told)


def test_a_prediction_knows_every_trial_before_its_own_and_the_prior_trial_0_alone(tmp_path: Path) -> None:
    made_up = table(tmp_path)
    found = course(made_up, "knowing", Knowing, 0, Budget(8))  # type: ignore[arg-type]
    outcomes = [step.outcome for step in found.steps]
    assert outcomes[0] is None, "trial 0 is told to all"
    assert sum(outcome is None for outcome in outcomes) == 2, "what did not run has no outcome"
    for trial, outcome in enumerate(outcomes):
        if outcome is not None:
            assert outcome.forecast[1] == 0.5 / trial
            assert outcome.prior[1] == 0.5
    second = outcomes[2]
    assert second is not None
    assert outcomes[1] is not None
    assert second.forecast[0] == outcomes[1].measured_log
    assert second.prior[0] == pytest.approx(math.log(10), abs=0.05)


def test_a_configuration_that_was_measured_before_is_no_outcome(tmp_path: Path) -> None:
    found = course(table(tmp_path), "knowing", Knowing, 0, Budget(10))  # type: ignore[arg-type]
    assert len(found.steps) == 11
    assert [step.outcome for step in found.steps[9:]] == [None, None]


class Watched(OwnPlanner):
    """Ours, which notes what it was told of before each prediction."""

    def __init__(self, problem: Problem, seed: int) -> None:
        super().__init__(problem, seed)
        self.known = set[Configuration]()

    def tell(self, told: Told) -> None:
        self.known.add(told.configuration)
        super().tell(told)

    def predict(self, configuration: Configuration) -> tuple[float, float]:
        assert configuration not in self.known, "it is told already what it is to foretell"
        return super().predict(configuration)


def test_with_trials_to_spare_each_row_is_foretold_once_before_it_is_known_whatever_is_measured_again(
    tmp_path: Path,
) -> None:
    """Rows nearly tie, so that trials go into telling them apart, with some seeds before all were tried."""
    tied = ("red,10 11 9", "blue,5 5.6 4.4", "green,5.61 5.01 4.41", "grey,4.42 5.02 5.62", "pink,9 8 10")
    made_up = table(tmp_path, None, *(f"none,,{each},1,yes,0,60" for each in tied))
    others = {row.configuration.digest for row in made_up.rows[1:]}
    early = 0
    for seed in range(6):
        found = course(made_up, "ours", Watched, seed, Budget(1000))
        measured = [step.measured for step in found.steps[1:]]
        foretold = [step.measured for step in found.steps if step.outcome is not None]
        early += set(measured[: len(others)]) != others
        assert sorted(foretold) == sorted(others)
        assert all(
            step.outcome is None for k, step in enumerate(found.steps[1:]) if step.measured in measured[:k]
        )
    assert early, "with each seed as many trials as rows try them all"


def test_a_row_of_the_table_tells_the_share_of_our_predictions_inside(tmp_path: Path) -> None:
    made_up = table(tmp_path)
    asked = Asked(("ours",), 2, Budget(8))
    courses = {"ours": [course(made_up, "ours", OwnPlanner, seed, asked.budget) for seed in range(2)]}
    held = calibration(Replayed(made_up, asked, courses, 8, {}).outcomes("ours"))
    assert held is not None
    assert (held.outcomes, held.rows, held.configurations) == (14, 7, 7)
    assert abs(HALF_WIDTH_SD - 1.2816) < 1e-4
    told = calibration_row("ours", held)
    assert len(told) == len(CALIBRATION)
    assert told[:3] == ("ours", "14", "7")

"""What trials teach: latency, quality, feasibility and cost."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.proposers.port import Trial
from agent.surrogate.cost import build_keys
from agent.surrogate.cost_priors import COMPILE_S, PRUNING_S, TRACED_S
from agent.surrogate.feasibility import FAILED_BEFORE
from agent.surrogate.levers import LeverView
from agent.surrogate.linear import SCALE_COUNT, LinearBelief
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration
from tests.unit.agent.campaigns import BASELINE, COMPILED, HALF, SPACE, beliefs, changed, pruned, trial

POINTS = list(SPACE.points())
CPP = changed({"serving.compile": "cpp_wrapper"})


def test_no_change_is_predicted_to_do_nothing() -> None:
    assert beliefs().predict(COMPILED, COMPILED).log_ratio_mean == pytest.approx(0)


@given(st.sampled_from(POINTS), st.sampled_from(POINTS))
def test_the_way_back_is_predicted_as_the_inverse(there: object, back: object) -> None:
    known = beliefs([trial(COMPILED, Outcome.SUPPORTED, -0.4), trial(pruned(1), Outcome.REFUTED, -0.07)])
    a, b = POINTS[POINTS.index(there)], POINTS[POINTS.index(back)]  # type: ignore[arg-type]
    forth, home = known.predict(a, b), known.predict(b, a)
    assert forth.log_ratio_mean == pytest.approx(-home.log_ratio_mean)
    assert forth.log_ratio_sd == pytest.approx(home.log_ratio_sd)


def test_a_measured_candidate_is_predicted_as_it_was_measured_with_little_spread() -> None:
    before = beliefs().predict(BASELINE, COMPILED)
    after = beliefs([trial(COMPILED, Outcome.SUPPORTED, -0.6)]).predict(BASELINE, COMPILED)
    assert math.exp(after.log_ratio_mean) == pytest.approx(0.4, abs=0.01)
    assert after.log_ratio_sd < before.log_ratio_sd / 3


def test_one_value_of_a_lever_teaches_about_its_others_but_less() -> None:
    known = beliefs([trial(COMPILED, Outcome.SUPPORTED, -0.6)])
    before, after = beliefs().predict(BASELINE, CPP), known.predict(BASELINE, CPP)
    expected, measured = beliefs().predict(BASELINE, COMPILED), known.predict(BASELINE, COMPILED)
    moved = after.log_ratio_mean - before.log_ratio_mean
    assert measured.log_ratio_mean - expected.log_ratio_mean < moved < 0
    assert measured.log_ratio_sd < after.log_ratio_sd < before.log_ratio_sd


def test_another_lever_learns_nothing_but_how_sure_to_be() -> None:
    known = beliefs([trial(COMPILED, Outcome.SUPPORTED, -0.6)])
    before, after = beliefs().predict(BASELINE, HALF), known.predict(BASELINE, HALF)
    assert after.log_ratio_mean == before.log_ratio_mean
    assert after.log_ratio_sd == pytest.approx(before.log_ratio_sd * known.latency.belief.scale)


def test_surprises_make_all_beliefs_wider_and_fulfilled_predictions_narrower() -> None:
    expected = beliefs().predict(BASELINE, COMPILED).log_ratio_mean
    spreads = [
        beliefs([trial(COMPILED, Outcome.SUPPORTED, math.expm1(effect))]).predict(BASELINE, HALF).log_ratio_sd
        for effect in (expected, expected - 2.0)
    ]
    assert spreads[0] < beliefs().predict(BASELINE, HALF).log_ratio_sd < spreads[1]


def test_levers_that_were_learnt_alone_are_less_sure_together() -> None:
    known = beliefs([trial(COMPILED, Outcome.SUPPORTED, -0.6), trial(HALF, Outcome.SUPPORTED, -0.3)])
    both = changed({"serving.dtype": HALF["serving.dtype"]}, COMPILED)
    alone = [known.predict(BASELINE, each) for each in (COMPILED, HALF)]
    together = known.predict(BASELINE, both)
    assert together.log_ratio_mean == pytest.approx(sum(each.log_ratio_mean for each in alone))
    assert together.log_ratio_sd > 2 * math.hypot(*(each.log_ratio_sd for each in alone))


def test_a_refuted_and_an_inconclusive_effect_teach_like_a_supported_one() -> None:
    found = [
        beliefs([trial(COMPILED, outcome, 0.2)]).predict(BASELINE, COMPILED)
        for outcome in (Outcome.REFUTED, Outcome.INCONCLUSIVE)
    ]
    assert found[0] == found[1]
    assert found[0].log_ratio_mean == pytest.approx(math.log(1.2), abs=0.02)


def test_a_confounded_effect_teaches_nothing() -> None:
    known = beliefs([trial(COMPILED, Outcome.CONFOUNDED, 0.2)])
    assert known.predict(BASELINE, COMPILED) == beliefs().predict(BASELINE, COMPILED)


def test_an_effect_teaches_the_less_the_larger_its_standard_error() -> None:
    means = [
        beliefs([trial(COMPILED, Outcome.INCONCLUSIVE, 0.2, se=se)])
        .predict(BASELINE, COMPILED)
        .log_ratio_mean
        for se in (0.01, 0.3, 3.0)
    ]
    assert means == sorted(means, reverse=True)
    assert means[2] == pytest.approx(beliefs().predict(BASELINE, COMPILED).log_ratio_mean, abs=0.01)


def test_an_effect_on_top_of_another_change_is_read_against_its_own_control() -> None:
    both = pruned(1, control=COMPILED)
    known = beliefs([trial(both, Outcome.SUPPORTED, -0.12, control=COMPILED)])
    assert math.exp(known.predict(COMPILED, both).log_ratio_mean) == pytest.approx(0.88, abs=0.02)
    # some of it may be what the two do together
    expected, alone = (each.predict(BASELINE, pruned(1)).log_ratio_mean for each in (beliefs(), known))
    assert math.log(0.88) < alone < expected
    compiled = [each.predict(BASELINE, COMPILED).log_ratio_mean for each in (beliefs(), known)]
    assert compiled[0] == compiled[1]


def test_quality_is_nearly_sure_for_compilation_and_doubtful_and_falling_for_pruning() -> None:
    known = beliefs()
    chances = [known.p_quality(point) for point in (COMPILED, pruned(1), pruned(2), pruned(3), pruned(4))]
    assert chances[0] > 0.9
    assert chances[1] < 0.5
    assert chances[1:] == sorted(chances[1:], reverse=True)


def test_a_layer_that_cost_little_makes_the_next_one_more_likely_to_hold() -> None:
    cheap = beliefs([trial(pruned(1), Outcome.SUPPORTED, -0.08, bits=0.001, points=0.0)])
    dear = beliefs([trial(pruned(1), Outcome.REFUTED, -0.08, bits=0.05, points=-6.0)])
    prior = beliefs().p_quality(pruned(2))
    assert dear.p_quality(pruned(2)) < prior < cheap.p_quality(pruned(2))
    assert cheap.p_quality(pruned(1)) > 0.7
    assert dear.p_quality(pruned(1)) < 0.05


def test_the_baseline_holds_its_own_quality() -> None:
    assert beliefs().p_quality(BASELINE) > 0.99


def test_what_failed_is_not_expected_to_run_again_and_its_lever_is_doubted() -> None:
    known = beliefs([trial(COMPILED, Outcome.INFEASIBLE, None, failure="build_failed")])
    assert known.p_feasible(COMPILED) == FAILED_BEFORE
    assert known.p_feasible(CPP) < beliefs().p_feasible(CPP)
    assert known.p_feasible(HALF) == beliefs().p_feasible(HALF)


def test_what_ran_is_expected_to_run() -> None:
    known = beliefs([trial(COMPILED, Outcome.REFUTED, 0.1)])
    assert known.p_feasible(COMPILED) > beliefs().p_feasible(COMPILED)


def test_a_failed_combination_blames_its_settings_alike_where_nothing_is_known_of_them() -> None:
    both = pruned(1, control=COMPILED)
    alone = beliefs([trial(COMPILED, Outcome.INFEASIBLE, None, failure="crashed")])
    shared = beliefs([trial(both, Outcome.INFEASIBLE, None, failure="crashed")])
    assert shared.p_feasible(COMPILED) == pytest.approx(shared.p_feasible(pruned(1)))
    assert alone.p_feasible(COMPILED) < shared.p_feasible(COMPILED) < beliefs().p_feasible(COMPILED)
    assert alone.p_feasible(CPP) < shared.p_feasible(CPP) < beliefs().p_feasible(CPP)


def test_what_failed_alone_is_expected_to_fail_in_every_combination() -> None:
    known = beliefs([trial(COMPILED, Outcome.INFEASIBLE, None, failure="crashed")])
    assert known.p_feasible(pruned(1, control=COMPILED)) < 0.2
    assert known.p_feasible(pruned(1, control=HALF)) > 0.9


def test_a_failed_combination_is_blamed_on_what_never_ran() -> None:
    ran = trial(HALF, Outcome.REFUTED, 0.0)
    failed = trial(pruned(1, control=HALF), Outcome.INFEASIBLE, None, failure="crashed")
    known = beliefs([ran, failed])
    assert known.p_feasible(HALF) > 0.9
    assert known.p_feasible(pruned(1)) < 0.3


def test_two_settings_that_run_alone_and_fail_together_are_doubted_together_alone() -> None:
    ran = [trial(each, Outcome.REFUTED, 0.0) for each in (HALF, pruned(1)) for _ in range(2)]
    both = pruned(1, control=HALF)
    known = beliefs([*ran, trial(both, Outcome.INFEASIBLE, None, failure="crashed")])
    with_more = changed({"serving.compile": "default"}, both)
    assert known.p_feasible(with_more) < 0.7 < 0.95 < known.p_feasible(HALF)
    assert known.p_feasible(pruned(1, control=COMPILED)) > 0.9


@settings(max_examples=15)  # of 120 orders
@given(st.permutations(range(5)))
def test_in_which_order_things_ran_and_failed_changes_no_chance_to_run(order: list[int]) -> None:
    told = [
        trial(HALF, Outcome.REFUTED, 0.0),
        trial(pruned(1, control=HALF), Outcome.INFEASIBLE, None, failure="crashed"),
        trial(pruned(1, control=COMPILED), Outcome.INFEASIBLE, None, failure="crashed"),
        trial(CPP, Outcome.SUPPORTED, -0.3),
        trial(pruned(2, control=CPP), Outcome.INFEASIBLE, None, failure="crashed"),
    ]
    known, anew = beliefs(told), beliefs([told[each] for each in order])
    for point in POINTS:
        assert known.p_feasible(point) == pytest.approx(anew.p_feasible(point), abs=1e-4)


def test_a_control_that_failed_says_nothing_of_the_candidate() -> None:
    known = beliefs([trial(COMPILED, Outcome.INFEASIBLE, None, failure="control")])
    assert known.p_feasible(COMPILED) == beliefs().p_feasible(COMPILED)


def test_an_artifact_that_exists_costs_nothing() -> None:
    view = LeverView.of(SPACE, BASELINE)
    keys = build_keys(view, pruned(1))
    built = beliefs(built=frozenset(keys))
    assert beliefs().cost_s(pruned(1)) - built.cost_s(pruned(1)) == pytest.approx(sum(keys.values()))


def test_compiling_again_after_a_trial_is_warm_and_for_other_weights_cold() -> None:
    known = beliefs([trial(COMPILED, Outcome.SUPPORTED, -0.5, cost_s=100.0)])
    cold = beliefs([trial(CPP, Outcome.SUPPORTED, -0.5, cost_s=100.0)]).cost_s(COMPILED)
    assert known.cost_s(COMPILED) < cold
    cold_part = known.cost_s(pruned(1, control=COMPILED)) - known.cost_s(pruned(1))
    assert 0 < cold_part < known.p_quality(pruned(1)) * (COMPILE_S + TRACED_S["default"])


def test_what_was_refused_for_its_quality_was_cheap_and_compiled_nothing() -> None:
    lossy = trial(
        pruned(2, control=COMPILED),
        Outcome.REFUTED,
        None,
        bits=0.2,
        points=-60.0,
        cost_s=26.0,
        control=COMPILED,
    )
    refused = beliefs([lossy] * 3)
    least = PRUNING_S["block_influence"] + 16.0
    assert refused.p_quality(pruned(3)) < 0.1
    assert least * 0.9 < refused.cost_s(pruned(3)) < least + 15
    kept = {key for key in refused.cost.built if key.startswith("compile")}
    assert kept == set(build_keys(refused.cost.view, COMPILED))


def test_changed_weights_are_looked_at_first_and_a_trace_is_made_in_every_launch() -> None:
    assert beliefs().cost_s(HALF) > beliefs().cost_s(pruned(1)) - PRUNING_S["block_influence"]
    assert beliefs().cost_s(COMPILED) > beliefs().cost_s(CPP)


def test_what_experiments_took_moves_the_expectation_of_all() -> None:
    slow = beliefs([trial(HALF, Outcome.REFUTED, 0.1, cost_s=500.0)] * 3)
    assert slow.cost_s(HALF) > 300
    assert beliefs().cost_s(pruned(1)) < slow.cost_s(pruned(1)) < slow.cost_s(HALF) + 100


@given(st.lists(st.sampled_from(POINTS), min_size=1, max_size=20))
def test_many_at_once_are_believed_as_one_by_one(points: list[object]) -> None:
    known = beliefs([trial(COMPILED, Outcome.SUPPORTED, -0.4, bits=0.0, points=0.0)])
    chosen = [POINTS[POINTS.index(point)] for point in points]  # type: ignore[arg-type]
    for point, found in zip(chosen, known.about([(BASELINE, point) for point in chosen]), strict=True):
        alone = known.predict(BASELINE, point)
        assert found.prediction.log_ratio_mean == pytest.approx(alone.log_ratio_mean)
        assert found.prediction.log_ratio_sd == pytest.approx(alone.log_ratio_sd)
        assert found.p_quality == pytest.approx(known.p_quality(point))
        assert found.p_feasible == known.p_feasible(point)
        assert found.cost_s == known.cost_s(point)
        assert 0 <= found.p_quality <= 1
        assert 0 < found.p_feasible <= 1


@st.composite
def trials(draw: st.DrawFn) -> Trial:
    """Any trial of the space that reports no acceptance length."""
    outcome = draw(st.sampled_from(Outcome))
    ran = outcome is not Outcome.INFEASIBLE
    maybe = st.none() | st.floats(-0.4, 0.4)
    return trial(
        draw(st.sampled_from(POINTS)),
        outcome,
        draw(maybe) if ran else None,
        control=draw(st.sampled_from(POINTS)),
        se=draw(st.none() | st.floats(0.005, 0.2)),
        bits=draw(maybe) if ran else None,
        points=draw(st.none() | st.floats(-6, 2)) if ran else None,
        cost_s=draw(st.floats(1, 300)),
        failure=None if ran else draw(st.sampled_from(("control", "crash"))),
    )


@settings(deadline=None)
@given(st.lists(trials(), max_size=6), trials(), st.lists(st.sampled_from(POINTS), min_size=1, max_size=6))
def test_one_trial_more_teaches_the_same_as_learning_all_anew(
    before: list[Trial], new: Trial, asked: list[Configuration]
) -> None:
    pairs = [(control, candidate) for control in asked for candidate in asked]
    anew = beliefs([*before, new]).about(pairs)
    for one, other in zip(beliefs(before).after(new).about(pairs), anew, strict=True):
        assert one.prediction.log_ratio_mean == pytest.approx(other.prediction.log_ratio_mean, abs=1e-6)
        assert one.prediction.log_ratio_sd == pytest.approx(other.prediction.log_ratio_sd, abs=1e-6)
        assert one.p_quality == pytest.approx(other.p_quality, abs=1e-6)
        assert one.p_feasible == pytest.approx(other.p_feasible)
        assert one.cost_s == pytest.approx(other.cost_s)


def test_a_trial_that_reports_an_acceptance_length_is_not_learnt_alone() -> None:
    drafted = replace(trial(COMPILED, Outcome.SUPPORTED, -0.1), acceptance_length=1.6)
    with pytest.raises(ValueError, match="acceptance"):
        beliefs().after(drafted)


def test_the_regression_is_the_closed_form_posterior() -> None:
    rows = [{"a": 1.0, "b": 0.5}, {"a": -1.0}, {"b": 2.0}]
    y, v = np.array([0.3, -0.1, 0.7]), np.array([0.01, 0.04, 0.09])
    x = np.array([[1.0, 0.5], [-1.0, 0.0], [0.0, 2.0]])
    covariance = np.linalg.inv(np.eye(2) + x.T @ np.diag(1 / v) @ x)
    found = LinearBelief.learn(rows, y.tolist(), v.tolist())
    assert found.mean == pytest.approx(covariance @ x.T @ (y / v))
    mean, variance = found.predict([{"a": 2.0}, {"unseen": 3.0}])
    misfit = y @ np.linalg.inv(x @ x.T + np.diag(v)) @ y
    scale = (SCALE_COUNT + misfit) / (SCALE_COUNT + 3)
    assert variance == pytest.approx([scale * 4 * covariance[0, 0], scale * 9.0])
    assert mean[1] == 0


def test_predictions_cover_outcomes_that_the_prior_itself_generates() -> None:
    """Self-consistency: outcomes drawn from the belief lie inside its 80 % interval four times of five."""
    rng = np.random.default_rng(11)
    inside = total = 0
    latency = beliefs().latency
    named = [name for point in POINTS[::7] for name in latency.contrast(BASELINE, point)[1]]
    for _ in range(60):
        truth = {name: rng.normal() for name in named}
        trials = []
        for number, k in enumerate(rng.permutation(len(POINTS))[:6]):
            point = POINTS[k]
            known = beliefs(trials)
            mean, features = known.latency.contrast(BASELINE, point)
            real = mean + sum(truth.get(name, 0.0) * value for name, value in features.items())
            seen = real + rng.normal(0, math.hypot(0.01, 0.02))
            found = known.predict(BASELINE, point)
            if set(features) <= set(truth):
                total += 1
                inside += abs(seen - found.log_ratio_mean) <= 1.2816 * math.hypot(found.log_ratio_sd, 0.01)
            trials.append(
                trial(point, Outcome.INCONCLUSIVE, math.expm1(seen), hypothesis_id=number + 1, se=0.01)
            )
    assert 0.72 <= inside / total <= 0.88

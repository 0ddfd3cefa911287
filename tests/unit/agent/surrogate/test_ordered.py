"""Values of an ordered knob tell of their neighbours, and change nothing of what is believed at first."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.surrogate.beliefs import Beliefs
from agent.surrogate.carried import Carried
from agent.surrogate.levers import LeverView
from agent.surrogate.ordered import ADJACENT, OrderedKnob, Resemblance
from agent.surrogate.physics import Physics
from agent.surrogate.quality import QualityBelief
from agent.surrogate.residual import LatencyBelief
from experiments.measurement.evidence import Metric
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import Knob
from experiments.space.space import Space
from tests.unit.agent import four_levers
from tests.unit.agent.four_levers import BASELINE, VIEW, beliefs, mtp, pruned, trial
from tests.unit.agent.proposers import test_other_kernels as h200

KNOB = "any.name"


def of(*values: KnobValue, baseline: KnobValue | None = None) -> Resemblance:
    """What a knob of these values says, where trial 0 has this one; None where it is not active there."""
    space = Space((Knob(KNOB, values, values[0], "lever"),))
    return Resemblance.of(space, {} if baseline is None else {KNOB: baseline})


def alike(resemblance: Resemblance, one: KnobValue, other: KnobValue) -> float:
    """The correlation of what is open of two values."""
    left, right = (resemblance.open(KNOB, value, 1.0) for value in (one, other))
    return math.fsum(weight * right.get(name, 0.0) for name, weight in left.items())


def test_neighbours_resemble_each_other_the_less_the_more_steps_lie_between() -> None:
    tokens = of(1, 2, 3, 4, 5, 6, 7)
    assert [alike(tokens, 3, each) for each in (3, 2, 4, 1, 5, 7)] == pytest.approx(
        [1, ADJACENT, ADJACENT, ADJACENT**2, ADJACENT**2, ADJACENT**4]
    )


def test_a_step_of_a_geometric_domain_is_a_factor() -> None:
    threads = of(1, 2, 4, 8, 16)
    assert alike(threads, 1, 2) == pytest.approx(ADJACENT) == pytest.approx(alike(threads, 8, 16))
    lengths = of(2048, 4096, 8192, 32768)
    assert alike(lengths, 8192, 32768) == pytest.approx(alike(lengths, 2048, 8192)), "a factor of four each"
    assert alike(lengths, 2048, 32768) == pytest.approx(ADJACENT**3), "four values are three steps long"


def test_in_which_order_a_space_lists_values_does_not_matter() -> None:
    assert alike(of(128, 32, 64), 64, 128) == pytest.approx(ADJACENT)


def test_two_numbers_are_one_step_apart_whatever_they_are() -> None:
    assert alike(of(4, 8), 4, 8) == alike(of(0.1, 0.9), 0.1, 0.9) == pytest.approx(ADJACENT)


@pytest.mark.parametrize("values", [("raw", "self"), (True, False), ("auto", 1, 2), (1, "2")])
def test_a_knob_that_chooses_between_things_has_an_unknown_for_each_value(
    values: tuple[KnobValue, ...],
) -> None:
    found = of(*values)
    assert [found.open(KNOB, each, 0.3) for each in values] == [{f"{KNOB}={each!r}": 0.3} for each in values]


def test_a_knob_of_one_value_and_one_of_another_space_have_an_unknown_for_each_value() -> None:
    assert of(4).open(KNOB, 4, 0.3) == {f"{KNOB}=4": 0.3}
    assert of(4).open(KNOB, 8, 0.3) == {f"{KNOB}=8": 0.3}
    assert of(1, 2).open("other.knob", 2, 0.3) == {"other.knob=2": 0.3}


def test_a_knob_that_is_not_active_any_more_has_an_unknown_of_its_own() -> None:
    assert of(1, 2, 3).open(KNOB, None, 0.3) == {f"{KNOB}=None": 0.3}


def test_a_word_and_a_switch_have_no_place_among_numbers() -> None:
    found = of(1, 2, 4)
    assert found.open(KNOB, "user:PATH", 0.3) == {f"{KNOB}='user:PATH'": 0.3}
    assert found.open(KNOB, True, 0.3) == {f"{KNOB}=True": 0.3}
    assert found.open(KNOB, 0, 0.3) == {f"{KNOB}=0": 0.3}, "nor has 0 among factors"


def test_what_lies_below_the_baseline_tells_nothing_of_what_lies_above() -> None:
    threads = of(1, 2, 4, 8, 16, baseline=4)
    assert alike(threads, 1, 2) == pytest.approx(ADJACENT) == pytest.approx(alike(threads, 8, 16))
    assert [alike(threads, one, other) for one in (1, 2) for other in (8, 16)] == [0.0] * 4
    assert alike(threads, 6, 8) > 0 == alike(threads, 6, 2)


def test_the_only_value_beside_the_baselines_is_open_as_before() -> None:
    [(_, weight)] = of(1, 2, baseline=2).open(KNOB, 1, 0.3).items()
    assert weight == pytest.approx(0.3)


def test_a_value_outside_the_domain_resembles_what_is_near_and_has_something_of_its_own() -> None:
    tokens = of(1, 2, 3, 4)
    assert alike(tokens, 6, 4) == pytest.approx(ADJACENT**2)
    assert alike(tokens, 2.5, 2) == pytest.approx(ADJACENT**0.5)
    assert tokens.open(KNOB, 6, 1.0)[f"{KNOB}=6"] == pytest.approx(math.sqrt(1 - ADJACENT**4))
    assert f"{KNOB}=4" not in tokens.open(KNOB, 4, 1.0)
    assert tokens.open(KNOB, 4, 1.0) == tokens.open(KNOB, 4.0, 1.0)


@given(
    st.lists(st.integers(-50, 5000), min_size=1, max_size=9, unique=True),
    st.integers(-100, 9000) | st.floats(-100, 9000),
    st.sampled_from([None, 0, 1]),
)
def test_any_value_is_open_by_its_own_standard_deviation_in_all(
    domain: list[int], value: float, baseline: int | None
) -> None:
    found = of(*domain, baseline=None if baseline is None else domain[min(baseline, len(domain) - 1)])
    assert math.hypot(*found.open(KNOB, value, 0.2).values()) == pytest.approx(0.2)


def walked(space: Space, baseline: Configuration, count: int) -> list[Configuration]:
    """Configurations at the end of so many walks from the baseline, knob by knob."""
    rng = random.Random(7)
    found = []
    for steps in rng.choices(range(1, 9), k=count):
        at = baseline
        for _ in range(steps):
            at = rng.choice(space.neighbours(at))
        found.append(at)
    return found


@pytest.mark.parametrize(
    ("space", "physics"),
    [(four_levers.SPACE, four_levers.PHYSICS), (h200.SPACE, h200.PHYSICS)],
    ids=["whole steps", "by part"],
)
def test_before_any_outcome_all_is_predicted_as_with_an_unknown_for_each_value(
    space: Space, physics: Physics
) -> None:
    view = LeverView.of(space, physics.baseline)
    apart = replace(view, resemblance=Resemblance())
    points = walked(space, physics.baseline, 60)
    assert view.resemblance.ordered
    now, before = (
        LatencyBelief.learn(each, physics, ()).predict([(physics.baseline, point) for point in points])
        for each in (view, apart)
    )
    for one, other in zip(now, before, strict=True):
        assert one.log_ratio_mean == other.log_ratio_mean
        assert one.log_ratio_sd == pytest.approx(other.log_ratio_sd, rel=1e-12)
    kept, was = (QualityBelief.learn(each, Margins(), ()).probability(points) for each in (view, apart))
    assert kept == pytest.approx(was, rel=1e-12)


def heard(known: Beliefs, candidate: Configuration) -> float:
    """How far the expectation moved, in standard deviations of what was open at first."""
    at_first = beliefs().predict(BASELINE, candidate)
    moved = known.predict(BASELINE, candidate).log_ratio_mean - at_first.log_ratio_mean
    return moved / at_first.log_ratio_sd


def off(candidate: Configuration, surprise: float) -> float:
    """The relative change of a candidate that comes out so many standard deviations off."""
    at_first = beliefs().predict(BASELINE, candidate)
    return math.expm1(at_first.log_ratio_mean + surprise * at_first.log_ratio_sd)


MADE_UP = Space((Knob(KNOB, tuple(range(9)), 0, "lever"),))
"""A knob of which physics knows nothing, of whose values as much is open of each."""


def learnt(space: Space, *outcomes: tuple[int, float]) -> LatencyBelief:
    """What is believed after these values came out with these logs over 0."""
    start = space.configuration({})
    tried = [
        replace(
            trial(BASELINE, Outcome.INCONCLUSIVE, math.expm1(log)),
            control=start,
            candidate=space.configuration({KNOB: value}),
        )
        for value, log in outcomes
    ]
    return LatencyBelief.learn(LeverView.of(space, start), Physics(start, 10.0), tried)


def expected(known: LatencyBelief, space: Space, *values: int) -> list[tuple[float, float]]:
    """Mean and standard deviation of what is expected of these values."""
    start = space.configuration({})
    pairs = [(start, space.configuration({KNOB: value})) for value in values]
    return [(each.log_ratio_mean, each.log_ratio_sd) for each in known.predict(pairs)]


def test_what_was_tried_tells_of_its_neighbours_more_than_of_values_far_away() -> None:
    found = expected(learnt(MADE_UP, (1, 0.2), (3, 0.2)), MADE_UP, 2, 4, 5, 6, 7, 8)
    means, spreads = zip(*found, strict=True)
    assert list(means) == sorted(means, reverse=True)
    assert list(spreads) == sorted(spreads)
    assert means[-1] > 0.1, "that it is the same lever tells of all values"
    assert means[1] - means[-1] > 0.02


def test_a_value_between_two_that_came_out_differently_lies_between_them() -> None:
    found = expected(learnt(MADE_UP, (1, -0.2), (3, 0.2)), MADE_UP, 1, 2, 3, 4, 8)
    means = [mean for mean, _ in found]
    assert means[0] < means[1] < means[2]
    assert means[1] == pytest.approx(0.0, abs=1e-9)
    assert means[2] > means[3] > means[4] > 0.0, "3 tells more of 4 than of 8"


def test_values_that_are_words_tell_all_others_the_same() -> None:
    words = Space((Knob(KNOB, tuple("abcdefgh"), "a", "lever"),))
    start = words.configuration({})
    tried = replace(
        trial(BASELINE, Outcome.INCONCLUSIVE, 0.2), control=start, candidate=words.configuration({KNOB: "b"})
    )
    known = LatencyBelief.learn(LeverView.of(words, start), Physics(start, 10.0), [tried])
    found = known.predict([(start, words.configuration({KNOB: each})) for each in "cdefgh"])
    assert {each.log_ratio_mean for each in found} == {found[0].log_ratio_mean}
    assert found[0].log_ratio_mean > 0


def test_draft_tokens_tell_of_their_neighbours_beside_what_the_arithmetic_of_drafting_says() -> None:
    tried = trial(mtp(3), Outcome.SUPPORTED, off(mtp(3), 1.0))
    apart = LatencyBelief.learn(replace(VIEW, resemblance=Resemblance()), four_levers.PHYSICS, [tried])
    now, before = beliefs([tried]).latency, apart
    gained = [
        now.predict([(BASELINE, mtp(tokens))])[0].log_ratio_mean
        - before.predict([(BASELINE, mtp(tokens))])[0].log_ratio_mean
        for tokens in (4, 5, 7)
    ]
    assert gained[0] > gained[1] > gained[2] > 0


def test_bits_of_a_value_tell_of_its_neighbours_too() -> None:
    known = beliefs([trial(pruned(4), Outcome.REFUTED, None, bits=0.0)])
    at_first = beliefs()
    better = [
        (
            at_first.predict(BASELINE, each, Metric.NLL_BITS).log_ratio_mean
            - known.predict(BASELINE, each, Metric.NLL_BITS).log_ratio_mean
        )
        / at_first.predict(BASELINE, each, Metric.NLL_BITS).log_ratio_sd
        for each in map(pruned, (5, 6, 8))
    ]
    assert better == sorted(better, reverse=True)
    assert better[2] > 0


def group_of(size: int) -> Configuration:
    return h200.SPACE.with_change(h200.AWQ, {"quantization.group_size": size})


def test_a_group_size_tells_of_its_neighbour_by_part_of_the_step() -> None:
    at_first = h200.beliefs([])
    slower = h200.trial(1, group_of(128), group_of(32), Outcome.REFUTED, 5.3, 5.0)
    known = h200.beliefs([slower])
    moved = {
        size: known.predict(group_of(128), group_of(size)).log_ratio_mean
        - at_first.predict(group_of(128), group_of(size)).log_ratio_mean
        for size in (32, 64)
    }
    assert 0 < moved[64] < moved[32]


def test_a_carried_outcome_outside_the_space_is_learnt_and_tells_most_of_what_is_near() -> None:
    far = Configuration.of({**pruned(8), "pruning.layers_removed": 10})
    told = [Carried(trial(far, Outcome.SUPPORTED, off(far, 1.0)), "C-1", same_model=True, same_workload=True)]
    own = [trial(pruned(layers), Outcome.SUPPORTED, off(pruned(layers), 0.5)) for layers in (1, 2)]

    def after(count: int) -> Beliefs:
        return Beliefs.learn(four_levers.SPACE, four_levers.PHYSICS, own[:count], Margins(), carried=told)

    heard_of = [heard(after(0), pruned(layers)) for layers in (8, 7, 5, 2)]
    assert heard_of == sorted(heard_of, reverse=True)
    assert heard_of[-1] > 0
    pairs = [(BASELINE, pruned(layers)) for layers in range(1, 9)] + [(pruned(2), far)]
    one_more = after(1).after(own[1]).about(pairs)
    for one, other in zip(one_more, after(2).about(pairs), strict=True):
        assert one.prediction.log_ratio_mean == pytest.approx(other.prediction.log_ratio_mean, abs=1e-9)
        assert one.prediction.log_ratio_sd == pytest.approx(other.prediction.log_ratio_sd, abs=1e-9)


def test_one_value_over_its_neighbour_is_less_open_than_over_one_far_away() -> None:
    known = beliefs().latency
    features = [known.contrast(mtp(3), mtp(tokens))[1] for tokens in (4, 7)]
    spreads = [
        math.hypot(*(value for name, value in each.items() if "draft_tokens" in name)) for each in features
    ]
    assert 0 < spreads[0] < spreads[1]


@pytest.mark.parametrize("values", [(0, 1, 1e308), (0, 1e-9, 1), (-1e308, 0, 1)])
def test_values_that_no_scale_tells_apart_are_told_apart_by_nothing(values: tuple[float, ...]) -> None:
    knob = Knob(name=KNOB, values=values, default=values[0], lever="any")
    assert OrderedKnob.of(knob, None) is None

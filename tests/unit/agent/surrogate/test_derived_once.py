"""What settings share is derived once, and says of each configuration what it says of that one alone."""

from __future__ import annotations

import random

from agent.surrogate.cost import build_keys
from agent.surrogate.levers import NOISE_KNOBS, LeverView
from agent.surrogate.quality import _bits_prior
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Change, Configuration
from tests.unit.agent.four_levers import BASELINE, RTN_4, SPACE, VIEW, beliefs, pruned, trial

CONFIGURATIONS = 60
MOST_STEPS = 6


def walked(drawn: random.Random) -> Configuration:
    """A configuration some random steps from the baseline."""
    found = BASELINE
    for _ in range(drawn.randrange(1, MOST_STEPS)):
        found = drawn.choice(list(SPACE.neighbours(found)))
    return found


def test_many_configurations_are_believed_together_as_each_by_itself() -> None:
    for seed in range(3):
        drawn = random.Random(seed)
        configurations = [pruned(2), pruned(2, RTN_4), *(walked(drawn) for _ in range(CONFIGURATIONS))]
        together = beliefs()
        told = together.about([(BASELINE, each) for each in configurations])
        again = together.about([(BASELINE, each) for each in configurations])
        alone = [beliefs().about([(BASELINE, each)])[0] for each in configurations]
        for each, one, other in zip(told, again, alone, strict=True):
            assert (each.p_quality, each.p_feasible, each.cost_s) == (
                other.p_quality,
                other.p_feasible,
                other.cost_s,
            )
            assert each.prediction == other.prediction
            assert one == each
        bits = [together.quality.bits(BASELINE, each) for each in configurations]
        assert bits == [beliefs().quality.bits(BASELINE, each) for each in configurations]


def test_what_pruning_costs_is_kept_apart_by_whether_weights_are_quantized() -> None:
    """Whatever else tells the two apart in a space: the very same setting of pruning with and without."""
    pruning = VIEW.settings(pruned(2))["pruning"]
    both = {"pruning": pruning, "quantization": VIEW.settings(RTN_4)["quantization"]}
    shared = LeverView.of(SPACE, BASELINE)
    asked = ({"pruning": pruning}, both, {"quantization": both["quantization"]})
    plain, together, quantized = (_bits_prior(shared, each)[0] for each in asked)
    assert together > plain + quantized
    assert together == _bits_prior(LeverView.of(SPACE, BASELINE), both)[0]


def test_a_configuration_seen_by_lever_has_the_changes_to_it_less_the_noise() -> None:
    drawn = random.Random(5)
    for each in (walked(drawn) for _ in range(CONFIGURATIONS)):
        changes = BASELINE.changes_to(each)
        assert changes == tuple(
            Change(knob, BASELINE.get(knob), each.get(knob))
            for knob in sorted({*BASELINE, *each})
            if (type(BASELINE.get(knob)), BASELINE.get(knob)) != (type(each.get(knob)), each.get(knob))
        )
        view = LeverView.of(SPACE, BASELINE)
        told = {knob: value for setting in view.settings(each).values() for knob, value in setting}
        assert told == {c.knob: c.after for c in changes if c.knob not in NOISE_KNOBS}
        made = {knob: value for setting in view.made_with(each).values() for knob, value in setting}
        assert made == {c.knob: c.after for c in changes}


def test_what_each_test_must_have_built_is_there_for_the_next_one() -> None:
    drawn = random.Random(9)
    tested = [walked(drawn) for _ in range(CONFIGURATIONS)]
    known = beliefs([trial(each, Outcome.REFUTED, 0.02) for each in tested]).cost
    built = {key for each in (BASELINE, *tested) for key in build_keys(VIEW, each)}
    assert known.built == built

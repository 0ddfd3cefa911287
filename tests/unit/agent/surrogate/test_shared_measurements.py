"""Trials that are held against one measurement share what it is off by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.proposers.port import Measured, Trial
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from tests.unit.agent.campaigns import BASELINE, COMPILED, HALF, beliefs, changed, pruned, trial

SE_LOG = 0.06
DRAFTING = changed({"drafting.method": "ngram"})
FIRST = Measured("trial 0", SE_LOG)


def measured(candidate: Configuration, change: float, control: Measured = FIRST) -> Trial:
    """A trial against the baseline; `change` is that of TPOT."""
    own = Measured(candidate.digest, 0.01)
    found = trial(candidate, Outcome.INCONCLUSIVE, change, se=math.hypot(control.se_log, own.se_log))
    return replace(found, arms=(control, own))


def told(trials: Sequence[Trial], candidate: Configuration) -> Prediction:
    return beliefs(trials).latency.foretold(BASELINE, FIRST, candidate, 0.01)


@given(st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_measurements_that_nobody_shares_teach_as_those_of_a_campaign_do(changes: list[float]) -> None:
    candidates = (COMPILED, HALF, pruned(1), DRAFTING)
    shared = [
        measured(candidate, change, Measured(f"control of {candidate.digest}", SE_LOG))
        for candidate, change in zip(candidates, changes, strict=False)
    ]
    apart = [replace(each, arms=None) for each in shared]
    for candidate in candidates:
        here, there = (beliefs(each).predict(BASELINE, candidate) for each in (shared, apart))
        assert here.log_ratio_mean == pytest.approx(there.log_ratio_mean, abs=1e-9)
        assert here.log_ratio_sd == pytest.approx(there.log_ratio_sd)


def test_what_all_trials_have_in_common_is_laid_on_the_one_measurement_that_they_share() -> None:
    """Three levers of which little is expected come out 10 % slower: trial 0 was lucky, and they are not."""
    changes = [(HALF, 0.1), (changed({"serving.threads": 1}), 0.1), (DRAFTING, 0.1)]
    shared = [measured(candidate, change) for candidate, change in changes]
    apart = [replace(each, arms=None) for each in shared]
    for candidate, _ in changes:
        before = beliefs().predict(BASELINE, candidate).log_ratio_mean
        blamed, shifted = (
            beliefs(each).predict(BASELINE, candidate).log_ratio_mean - before for each in (apart, shared)
        )
        assert shifted < blamed


def test_what_will_be_told_is_held_against_what_trial_0_told_and_not_against_what_it_takes() -> None:
    slower = [measured(HALF, 0.1), measured(changed({"serving.threads": 1}), 0.1), measured(DRAFTING, 0.1)]
    truly, said = beliefs(slower).predict(BASELINE, pruned(1)), told(slower, pruned(1))
    assert said.log_ratio_mean > truly.log_ratio_mean, "trial 0 told less than it takes"


def test_a_shared_error_is_known_the_better_the_more_share_it() -> None:
    few, many = [measured(HALF, 0.0)], [measured(each, 0.0) for each in (HALF, DRAFTING, COMPILED)]
    less, more = (
        told(each, pruned(1)).log_ratio_sd / beliefs(each).latency.belief.scale for each in (few, many)
    )
    assert more < less, "but for how wide all beliefs were found to be"

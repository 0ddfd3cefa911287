"""What the proof of transfer tells of a first campaign, true and poisoned."""

from dataclasses import replace

import pytest

from agent.surrogate.drafting import acceptance_length
from experiments.measurement.judging import Outcome
from tests.proofs.transfer import accepted, huge, shuffled, silent, turned
from tests.unit.agent import four_levers
from tests.unit.agent.campaigns import COMPILED, trial
from tests.unit.agent.four_levers import mtp

TRIALS = [
    trial(COMPILED, Outcome.SUPPORTED, effect, hypothesis_id=number)
    for number, effect in enumerate((-0.6, -0.2, 0.1, 0.3))
]
FAILED = replace(TRIALS[0], experiment_id=9, effect_log=None, outcome=Outcome.INFEASIBLE)
DRAFTED = [
    replace(
        four_levers.trial(mtp(tokens), Outcome.SUPPORTED, -0.1, hypothesis_id=10 + tokens),
        acceptance_length=acceptance_length(first, tokens),
    )
    for tokens, first in ((1, 0.2), (2, 0.6), (4, 0.9))
]


@pytest.mark.parametrize("draw", [str(number) for number in range(20)])
def test_what_is_shuffled_is_all_there_and_none_of_it_of_its_own_configuration(draw: str) -> None:
    told = shuffled([*TRIALS, FAILED], draw)
    assert told[-1] == FAILED
    assert sorted(each.effect_log or 0 for each in told[:-1]) == sorted(
        each.effect_log or 0 for each in TRIALS
    )
    assert all(one.effect_log != other.effect_log for one, other in zip(told, TRIALS, strict=False))
    assert [each.experiment_id for each in told[:-1]] == [each.experiment_id for each in TRIALS]


def test_verdicts_go_with_what_is_claimed() -> None:
    for told in (shuffled(TRIALS, "0"), turned(TRIALS, ""), huge(TRIALS, "0")):
        for each in told:
            assert (each.outcome is Outcome.SUPPORTED) == ((each.effect_log or 0) < 0)
    assert {each.effect_log for each in silent(TRIALS, "")} == {None}


def test_of_drafts_is_told_what_goes_with_the_poison() -> None:
    told = turned([*TRIALS, *DRAFTED], "")
    assert [accepted(each) for each in told[: len(TRIALS)]] == [None] * len(TRIALS)
    assert [accepted(each) for each in told[-3:]] == pytest.approx([0.8, 0.4, 0.1])
    assert {accepted(each) for each in silent(DRAFTED, "")} == {None}
    for each in huge(DRAFTED, "0"):
        assert accepted(each) == pytest.approx(1.0 if (each.effect_log or 0) < 0 else 0.0)


@pytest.mark.parametrize("draw", [str(number) for number in range(10)])
def test_each_acceptance_is_told_of_another_that_drafts(draw: str) -> None:
    told = [accepted(each) or 0 for each in shuffled([*TRIALS, *DRAFTED], draw)[-3:]]
    were = [accepted(each) or 0 for each in DRAFTED]
    assert sorted(told) == pytest.approx(sorted(were))
    assert all(abs(one - other) > 0.1 for one, other in zip(told, were, strict=True))

"""What the proof of transfer tells of a first campaign, true and poisoned."""

from dataclasses import replace

import pytest

from experiments.measurement.judging import Outcome
from tests.proofs.transfer import huge, shuffled, silent, turned
from tests.unit.agent.campaigns import COMPILED, trial

TRIALS = [
    trial(COMPILED, Outcome.SUPPORTED, effect, hypothesis_id=number)
    for number, effect in enumerate((-0.6, -0.2, 0.1, 0.3))
]
FAILED = replace(TRIALS[0], experiment_id=9, effect_log=None, outcome=Outcome.INFEASIBLE)


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

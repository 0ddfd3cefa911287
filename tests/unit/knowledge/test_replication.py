"""Whether a fresh run says what the first one claimed."""

from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.states import VerdictOutcome
from knowledge.replication import Agreement, Judgement, compare, difference_between

SUPPORTED, REFUTED = VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED
INCONCLUSIVE, CONFOUNDED = VerdictOutcome.INCONCLUSIVE, VerdictOutcome.CONFOUNDED
INFEASIBLE = VerdictOutcome.INFEASIBLE


def judged(
    outcome: VerdictOutcome, effect: float | None = -0.1, half: float = 0.02, metric: str = "tpot_ms"
) -> Judgement:
    if effect is None:
        return Judgement(outcome, metric)
    return Judgement(outcome, metric, effect, effect - half, effect + half)


CLAIMED = judged(SUPPORTED)


@pytest.mark.parametrize(
    ("fresh", "agreement"),
    [
        (judged(SUPPORTED, -0.09), Agreement.AGREES),
        (judged(SUPPORTED, -0.125), Agreement.AGREES),
        (judged(SUPPORTED, -0.2), Agreement.DIFFERS),
        (judged(REFUTED, 0.0), Agreement.DIFFERS),
        (judged(REFUTED, -0.09), Agreement.DIFFERS),  # its quality was lost: the effect is the same
        (judged(REFUTED, None), Agreement.DIFFERS),
        (judged(INFEASIBLE, None), Agreement.DIFFERS),
        (judged(INCONCLUSIVE, -0.08), Agreement.OPEN),
        (judged(INCONCLUSIVE, 0.0), Agreement.DIFFERS),
        (judged(INCONCLUSIVE, None), Agreement.OPEN),
        (judged(CONFOUNDED, 0.0), Agreement.OPEN),
    ],
)
def test_a_supported_claim_is_said_again_contradicted_or_left_open(
    fresh: Judgement, agreement: Agreement
) -> None:
    assert compare(CLAIMED, fresh).agreement is agreement


def test_what_was_left_open_is_not_contradicted_by_a_decision() -> None:
    assert compare(judged(INCONCLUSIVE, -0.08), CLAIMED).agreement is Agreement.OPEN


def test_the_difference_errs_by_both_and_by_less_than_their_sum() -> None:
    found = difference_between(judged(SUPPORTED, -0.1, 0.03), judged(SUPPORTED, -0.1, 0.04))
    assert found is not None
    assert isclose(found.high_log, 0.05)
    assert isclose(found.low_log, -0.05)


def test_an_interval_that_leans_leans_the_difference_too() -> None:
    claimed = Judgement(SUPPORTED, "tpot_ms", -0.1, -0.11, -0.04)
    found = difference_between(claimed, Judgement(SUPPORTED, "tpot_ms", -0.1, -0.1, -0.1))
    assert found is not None
    assert isclose(found.low_log, -0.06)  # what was claimed may be as little as 0.04, and the fresh run more
    assert isclose(found.high_log, 0.01)


def test_an_exact_effect_is_the_same_only_where_it_is_equal() -> None:
    exact = judged(SUPPORTED, -0.3, 0.0, "step_weight_bytes")
    assert compare(exact, judged(SUPPORTED, -0.3, 0.0, "step_weight_bytes")).agreement is Agreement.AGREES
    assert compare(exact, judged(SUPPORTED, -0.31, 0.0, "step_weight_bytes")).agreement is Agreement.DIFFERS


effects = st.floats(-1, 1)
halves = st.floats(0, 0.5)


@given(effects, halves, effects, halves, st.sampled_from(list(VerdictOutcome)))
def test_the_difference_is_the_same_seen_from_either_run(
    first: float, first_half: float, second: float, second_half: float, outcome: VerdictOutcome
) -> None:
    one, other = judged(outcome, first, first_half), judged(outcome, second, second_half)
    there, back = difference_between(one, other), difference_between(other, one)
    assert there is not None
    assert back is not None
    assert isclose(there.effect_log, -back.effect_log, abs_tol=1e-12)
    assert isclose(there.low_log, -back.high_log, abs_tol=1e-12)
    assert compare(one, other).agreement is compare(other, one).agreement

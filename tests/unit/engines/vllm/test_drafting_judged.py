"""What two readings of a text say of its drafting."""

import pytest

from experiments.engines.port import GenerationRequest, GenerationTrace, Infeasible
from experiments.engines.vllm.drafting_check import Reading, check_counters, judged

REQUEST = GenerationRequest("code:a", (1, 2, 3), 41)
TRACE = GenerationTrace(tuple(range(41)), tuple(range(1, 42)), (2,) * 20)


def reading(*short: float, change: float = 0.01, flips: int = 0, positions: int = 40) -> Reading:
    rest = positions - len(short)
    return {
        "other": [True] * len(short) + [False] * rest,
        "shortfalls": [*short, *[0.0] * rest],
        "gap_changes": [change] + [0.0] * (positions - 1),
        "flipped": [True] * flips + [False] * (positions - flips),
    }


def test_a_text_that_is_the_greedy_one_has_no_divergence() -> None:
    [check] = judged([REQUEST], [TRACE], [reading()], "bfloat16")
    assert (check.divergences, check.near_ties, check.positions) == (0, 0, 40)
    assert check.step_tokens == TRACE.step_tokens


def test_a_token_within_what_rounding_moves_is_a_near_tie_and_one_beyond_a_divergence() -> None:
    [check] = judged([REQUEST], [TRACE], [reading(0.2, 0.05, change=0.1)], "bfloat16")
    assert (check.divergences, check.near_ties, check.near_tie_logits) == (1, 1, 0.1)


def test_the_widest_change_of_all_texts_counts_up_to_the_limit_of_the_type() -> None:
    checks = judged([REQUEST] * 2, [TRACE] * 2, [reading(0.7), reading(change=2.0)], "bfloat16")
    assert [check.near_tie_logits for check in checks] == [0.5, 0.5]
    assert [check.divergences for check in checks] == [1, 0]


def test_a_step_that_chooses_otherwise_without_any_draft_is_a_fault() -> None:
    with pytest.raises(Infeasible, match="another token at 9 of 40") as refused:
        judged([REQUEST], [TRACE], [reading(flips=9)], "bfloat16")
    assert refused.value.kind == "crashed"


def test_logits_that_are_not_finite_are_a_fault() -> None:
    with pytest.raises(Infeasible, match="not finite"):
        judged([REQUEST], [TRACE], [reading(change=float("nan"))], "bfloat16")


STEPS = [(2, 1, 3), (3, 3)]
"""Seven drafts of two at a time that stood, of two requests."""


@pytest.mark.parametrize("counted", [(5, 2), (9, 6), (0, 0), ()])
def test_what_vllm_counts_may_lie_a_step_or_two_beside_the_steps_of_each_request(
    counted: tuple[int, ...],
) -> None:
    """It goes on a little after the text; without a count there is nothing to hold against."""
    check_counters(STEPS, counted, 2)


def test_steps_that_were_taken_together_are_found_by_what_vllm_counts() -> None:
    with pytest.raises(
        Infeasible, match="counts 20 drafts that stood where the steps of 2 requests show 7"
    ) as told:
        check_counters(STEPS, (12, 8), 2)
    assert told.value.kind == "crashed"
    with pytest.raises(Infeasible, match="counts 0 drafts"):
        check_counters([(3,) * 40], (0, 0), 2)

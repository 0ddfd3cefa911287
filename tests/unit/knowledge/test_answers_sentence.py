"""The answer of a question in a sentence: no more than was shown, and open where it is open."""

from __future__ import annotations

from db.states import HypothesisState, VerdictOutcome
from knowledge.telling.answers_sentence import answer_sentence
from tests.unit.knowledge.contrasts import another_draw, contrast

SUPPORTED, REFUTED = VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED
BLEND_HELPS = contrast(
    "blend_items", SUPPORTED, (-0.035, -0.058, -0.013), if_supported="the blend solves more items"
)
DRAW = another_draw((0.022, -0.009, 0.054))
FASTER: dict[str, object] = {"drafting.method": "mtp"}


def test_a_supported_and_a_refuted_claim_say_what_the_author_wrote_for_them_with_their_effects() -> None:
    faster = contrast(
        "mtp",
        SUPPORTED,
        (-0.1, -0.12, -0.08),
        control={},
        candidate=FASTER,
        metric="tpot_ms",
        if_supported="it is faster",
    )
    bits = contrast(
        "bits",
        REFUTED,
        (0.0, -0.001, 0.001),
        control={},
        candidate=FASTER,
        metric="nll_bits",
        if_refuted="it costs no bits",
    )
    sentence = answer_sentence([faster, bits], [])
    assert sentence == (
        "**Answer.** It is faster (`mtp`: −9.5 % [−11.3, −7.7]); "
        "it costs no bits (`bits`: 0.0 % [−0.1, +0.1])."
    )


def test_what_answers_in_the_place_of_a_confounded_test_says_what_it_has_fixed() -> None:
    held = contrast(
        "g32",
        SUPPORTED,
        (-0.1, -0.12, -0.08),
        metric="nll_bits",
        if_supported="g128 loses bits",
        held={"serving.linear_backend": "marlin"},
    )
    assert "g128 loses bits, with serving.linear_backend at marlin in both arms (`g32`: −9.5 % [" in (
        answer_sentence([held], [])
    )


def test_an_effect_no_larger_than_a_second_draw_is_told_as_that() -> None:
    assert answer_sentence([BLEND_HELPS], [BLEND_HELPS, DRAW]) == (
        "**Answer.** With these calibration samples: the blend solves more items (`blend_items`: +3.5 points "
        "[+1.3, +5.8], no more than another draw of the calibration text may change). Another draw of the "
        "calibration text alone: `another_draw` −2.2 points [−5.4, +0.9]."
    )


def test_an_effect_that_no_draw_was_measured_beside_says_so() -> None:
    sentence = answer_sentence([BLEND_HELPS], [BLEND_HELPS, another_draw(None)])
    assert "[+1.3, +5.8], while no other draw of the calibration text was measured)." in sentence


def test_an_effect_beyond_the_draws_is_still_of_these_samples() -> None:
    large = contrast("g32", SUPPORTED, (-0.17, -0.2, -0.141), if_supported="g32 solves more")
    sentence = answer_sentence([large], [large, DRAW])
    assert sentence.startswith(
        "**Answer.** With these calibration samples: "
        "g32 solves more (`g32`: +17.0 points [+14.1, +20.0]). Another draw"
    )


def test_what_is_open_is_named_with_what_is_known_of_it() -> None:
    unclear = contrast("unclear", VerdictOutcome.INCONCLUSIVE, (0.0, -0.02, 0.02))
    sentence = answer_sentence([BLEND_HELPS, unclear, contrast("waits")], [DRAW])
    assert sentence.startswith("**In part.** ")
    assert "; open: “unclear is better” (`unclear`: 0.0 points [−2.0, +2.0], " in sentence
    assert "inconclusive) and “waits is better” (`waits`, open)." in sentence


def test_nothing_settled_is_open_and_what_cannot_be_tested_is_told_apart() -> None:
    assert answer_sentence([contrast("never", state=None)], []) == (
        "**Open:** “never is better” (`never`, not asked)."
    )
    impossible = contrast("mtp", state=HypothesisState.INFEASIBLE)
    assert answer_sentence([impossible], []) == (
        "**Open.** Not to be tested here: “mtp is better” (`mtp`, infeasible)."
    )


def test_a_claim_that_quality_refuted_does_not_get_the_words_for_too_small_a_gain() -> None:
    worse = contrast(
        "g128", REFUTED, (-0.05, -0.06, -0.04), if_refuted="it gains nothing", quality_held=False
    )
    sentence = answer_sentence([worse], [])
    assert "“g128 is better” is refuted, for the quality is worse than its margins allow (`g128`" in sentence
    assert "gains nothing" not in sentence


def test_only_contrasts_that_decide_make_the_answer() -> None:
    extra = contrast("extra", SUPPORTED, (-0.1, -0.2, -0.05), role="adds")
    assert "extra" not in answer_sentence([BLEND_HELPS, extra, DRAW], [DRAW])
    assert answer_sentence([extra, DRAW], []) == "**Open:** no contrast decides this question."


def bound(difference: float, half: float, margin: float) -> dict[str, object]:
    """A test of quality as a verdict stores it; more is worse."""
    return {
        "difference": difference,
        "low": difference - half,
        "high": difference + half,
        "margin": margin,
        "count": 600,
    }


def told_beside(quality: dict[str, object], *, metric: str = "nll_bits", held: bool = True) -> str:
    outcome = SUPPORTED if held else REFUTED
    found = contrast(
        "pruned",
        outcome,
        (-0.3, -0.4, -0.2),
        control={},
        candidate=FASTER,
        metric=metric,
        if_supported="layers cost bits",
        quality_held=held,
        quality=quality,
    )
    return answer_sentence([found], [])


def test_quality_that_the_control_lost_is_told_with_a_claim_that_is_supported() -> None:
    sentence = told_beside({"state": "held", "task_points_lost": bound(-81.1, 2.0, 2.0)})
    assert sentence == (
        "**Answer.** Layers cost bits (`pruned`: −25.9 % [−33.0, −18.1]; the control loses 81.1 points of "
        "tasks)."
    )


def test_quality_that_the_candidate_lost_is_told_with_its_figure() -> None:
    lost = {"state": "worse", "task_points_lost": bound(6.7, 2.0, 2.0)}
    assert told_beside(lost, held=False).endswith("[−33.0, −18.1]; the candidate loses 6.7 points of tasks).")
    more = {"state": "worse", "bits_per_byte_relative": bound(0.25, 0.02, 0.01)}
    assert "; the candidate needs 25.0 % more bits per byte)." in told_beside(
        more, metric="task_correct", held=False
    )
    far = {"state": "worse", "kl_nats": bound(2.61, 0.1, 1.0)}
    assert "; the candidate is 2.6 nats a token from the reference)." in told_beside(
        far, metric="step_weight_bytes", held=False
    )


def test_what_the_other_arm_needs_more_is_in_its_own_scale_and_on_time_the_other_is_the_baseline() -> None:
    less = {"state": "held", "bits_per_byte_relative": bound(-0.2, 0.02, 0.01)}
    assert "; the control needs 25.0 % more bits per byte)." in told_beside(less, metric="task_correct")
    assert "; the baseline needs 25.0 % more bits per byte)." in told_beside(less, metric="tpot_ms")


def test_drafting_that_changes_the_text_is_told() -> None:
    changed = {"state": "worse", "drafting": {"acceptance_length": 1.5, "changes_text": True}}
    assert "; its drafting changes the text)." in told_beside(changed, metric="tpot_ms", held=False)


def test_a_difference_that_may_lie_within_the_margin_and_the_claims_own_metric_are_not_told() -> None:
    within = {"state": "held", "task_points_lost": bound(-3.0, 1.5, 2.0)}
    own = {"state": "held", "bits_per_byte_relative": bound(-0.3, 0.02, 0.01)}
    for quality in (within, own):
        assert told_beside(quality).endswith("(`pruned`: −25.9 % [−33.0, −18.1]).")

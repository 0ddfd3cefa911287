"""What a user enqueues."""

from __future__ import annotations

import math

import pytest

from agent.proposers.dedupe import refusal
from agent.proposers.port import Draft
from agent.proposers.user import Enqueued, user_draft
from configs.errors import UsageError
from tests.unit.agent.campaigns import BASELINE, COMPILED, SPACE, beliefs


def draft(
    claim: str = "One thread is enough",
    *assignments: str,
    expect: str | None = None,
    min_effect: str | None = None,
    why: str | None = None,
    pin: bool = False,
    metric: str = "tpot_ms",
) -> Draft:
    asked = Enqueued(claim, assignments or ("serving.threads=1",), expect, min_effect, why, pin)
    return user_draft(asked, SPACE, BASELINE, metric=metric, min_effect=0.03, predict=beliefs().predict)


def test_a_claim_with_an_assignment_is_a_draft_against_the_incumbent() -> None:
    found = draft(why="small operations", pin=True)
    assert found.claim == "One thread is enough."
    assert found.control == BASELINE
    assert found.candidate["serving.threads"] == 1
    assert (found.lever, found.proposer, found.pinned) == ("threads", "user", True)
    assert found.rationale == "small operations"
    assert refusal(found, SPACE, []) is None


def test_an_expected_effect_becomes_the_prediction() -> None:
    found = draft(expect="tpot=-10%±4%", min_effect="5%")
    assert found.prediction.log_ratio_mean == pytest.approx(math.log(0.9))
    assert found.prediction.log_ratio_sd == pytest.approx(0.04 / 0.9)
    assert found.min_effect == pytest.approx(0.05)
    assert "−5 %" in found.refuted_if


def test_more_tokens_a_second_are_predicted_as_faster() -> None:
    found = draft(expect="tokens_per_s=+25%", metric="tokens_per_s")
    assert found.prediction.log_ratio_mean == pytest.approx(-math.log(1.25))


def test_without_an_expectation_the_surrogate_predicts() -> None:
    assert draft().prediction == beliefs().predict(BASELINE, draft().candidate)


def test_several_knobs_make_a_change_of_several_levers() -> None:
    found = draft("Both at once", "serving.compile=default", "serving.threads=1")
    assert found.lever == "compile+threads"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"claim": "  "}, "The claim is empty"),
        ({"assignments": ("serving.thread=1",)}, "There is no knob"),
        ({"assignments": ("serving.threads=3",)}, "cannot be"),
        ({"assignments": ("pruning.layers_removed=2",)}, "only means something when"),
        ({"assignments": ("serving.threads",)}, "not an assignment"),
        ({"assignments": ("serving.threads=2",)}, "changes nothing"),
        ({"expect": "tpot=fast"}, "not a percentage"),
        ({"expect": "ttft=-10%"}, "judged on tpot_ms"),
        ({"expect": "tpot=-2%"}, "refutes itself"),
        ({"min_effect": "0%"}, "not between 0 and 100"),
        ({"min_effect": "3"}, "not a percentage"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence_and_a_hint(asked: dict[str, object], message: str) -> None:
    values: dict[str, object] = {
        "claim": "One thread is enough",
        "assignments": ("serving.threads=1",),
    } | asked
    with pytest.raises(UsageError, match=message) as refused:
        user_draft(
            Enqueued(**values),  # type: ignore[arg-type]
            SPACE,
            BASELINE,
            metric="tpot_ms",
            min_effect=0.03,
            predict=beliefs().predict,
        )
    assert refused.value.hint
    assert refused.value.exit_code == 2


def test_no_assignment_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="changes no knob"):
        user_draft(
            Enqueued("Nothing", ()),
            SPACE,
            COMPILED,
            metric="tpot_ms",
            min_effect=0.03,
            predict=beliefs().predict,
        )

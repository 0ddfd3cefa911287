"""Which drafts are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.proposers.dedupe import Earlier, refusal
from agent.proposers.draft import draft_of
from agent.proposers.user import PROPOSER as USER
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from tests.unit.agent.campaigns import BASELINE, COMPILED, HALF, SPACE, view

DRAFT = draft_of(view(), COMPILED, proposer="rules", rationale="dispatch")


def earlier(control: Configuration, candidate: Configuration, hypothesis_id: int = 7) -> Earlier:
    return Earlier(hypothesis_id, control.digest, candidate.digest, "refuted")


def test_a_new_draft_is_taken_in() -> None:
    assert refusal(DRAFT, SPACE, [earlier(BASELINE, HALF)]) is None


def test_a_duplicate_points_to_the_earliest_one_and_its_state() -> None:
    found = refusal(DRAFT, SPACE, [earlier(BASELINE, COMPILED, 9), earlier(BASELINE, COMPILED)])
    assert found is not None
    assert found.duplicate_of == 7
    assert found.reason.startswith("H-007 claims the same change")
    assert "refuted" in found.reason
    assert "autoinfer show H-007" in found.hint


def test_what_nothing_was_learnt_of_may_be_asked_again_by_a_person_alone() -> None:
    void = replace(earlier(BASELINE, COMPILED), state="withdrawn", void=True)
    assert refusal(replace(DRAFT, proposer=USER), SPACE, [void]) is None
    for proposer, known in ((DRAFT.proposer, void), (USER, replace(void, void=False))):
        found = refusal(replace(DRAFT, proposer=proposer), SPACE, [known])
        assert found is not None
        assert found.duplicate_of == 7


def test_the_same_candidate_against_another_control_is_no_duplicate() -> None:
    assert refusal(DRAFT, SPACE, [earlier(HALF, COMPILED)]) is None


@pytest.mark.parametrize(
    ("draft", "message"),
    [
        (replace(DRAFT, candidate=BASELINE), "nothing changes"),
        (replace(DRAFT, claim="  "), "claim is empty"),
        (replace(DRAFT, min_effect=0.0), "not between 0 and 1"),
        (
            replace(
                DRAFT, prediction=Prediction.model_construct(log_ratio_mean=float("nan"), log_ratio_sd=1.0)
            ),
            "not a number",
        ),
        (replace(DRAFT, lever="pruning"), "names the lever pruning, but changes compile"),
        (
            replace(DRAFT, candidate=Configuration.of({**COMPILED, "serving.warp": 9})),
            "no knob 'serving.warp'",
        ),
        (
            replace(DRAFT, candidate=Configuration.of({"serving.compile": "default"})),
            "pruning.method, serving.dtype, serving.threads",
        ),
        (
            replace(DRAFT, candidate=Configuration.of({**COMPILED, "pruning.layers_removed": 2})),
            "only means something when pruning.method is depth",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(draft: object, message: str) -> None:
    found = refusal(draft, SPACE, [])  # type: ignore[arg-type]
    assert found is not None
    assert message in found.reason
    assert found.hint

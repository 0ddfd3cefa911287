"""The proposer `language-model`: drafts of what was answered, within its share."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.language_model.answer import Proposal, read_answer
from agent.proposers.language_model import LanguageModelProposer, Ready, draft_from, most_standing
from agent.proposers.port import CampaignView, Draft, Proposer
from configs.errors import UsageError
from experiments.measurement.judging import Outcome
from experiments.space.configuration import KnobValue
from tests.unit.agent.campaigns import BASELINE, COMPILED, HALF, trial, view
from tests.unit.agent.language_model.proposals import ALLOWED, answer, entry
from tests.unit.agent.proposers.conformance import ProposerConformance


def proposal(knob: str, value: KnobValue) -> Proposal:
    (found,), _ = read_answer(answer(entry(change={knob: value})), ALLOWED)
    return found


COMPILE, DTYPE = proposal("serving.compile", "default"), proposal("serving.dtype", "bfloat16")
READY = (Ready(COMPILE, 1, 0, BASELINE), Ready(DTYPE, 1, 1, BASELINE))


class TestLanguageModel(ProposerConformance):
    def proposer(self) -> Proposer:
        return LanguageModelProposer(READY)

    def test_the_prediction_is_the_surrogates(
        self, campaign: CampaignView, drafts: tuple[Draft, ...]
    ) -> None:
        """The model is held to its own."""
        assert all(draft.prediction == COMPILE.prediction for draft in drafts)


def test_without_answers_it_says_nothing() -> None:
    assert LanguageModelProposer().propose(view(), 5) == []


def test_a_draft_names_the_answer_the_findings_and_both_ways_to_refute_it() -> None:
    draft = draft_from(view(), READY[0])
    assert draft.from_model is not None
    assert (draft.from_model.answer_id, draft.from_model.place) == (1, 0)
    assert draft.from_model.builds_on == ("F-001",)
    assert draft.rationale.startswith("A language model: “Dispatch takes 40 % of a step")
    assert draft.rationale.endswith("Builds on F-001.")
    assert draft.refuted_if.startswith("The whole interval of the effect lies above −3 %")
    assert draft.refuted_if.endswith("In the language model’s words: “A token takes as long as before.”")


def test_on_another_best_it_is_proposed_on_top_of_that_and_says_so() -> None:
    seen = view([trial(HALF, Outcome.SUPPORTED, -0.3)], incumbent=HALF, incumbent_hypothesis_id=1)
    draft = draft_from(seen, READY[0])
    assert draft.control == HALF
    assert draft.parents == (1,)
    assert draft.rationale.endswith("It was proposed on top of another configuration.")


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (view(incumbent=COMPILED), "It changes nothing"),
        (view(banned=frozenset({"compile"})), "The lever compile is banned or used up."),
    ],
)
def test_what_can_t_be_proposed_now_says_why(seen: CampaignView, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        draft_from(seen, READY[0])


def test_it_brings_no_more_than_its_share_allows() -> None:
    assert len(LanguageModelProposer(READY, most=1).propose(view(), 5)) == 1
    assert LanguageModelProposer(READY, most=0).propose(view(), 5) == []
    assert LanguageModelProposer(READY, most=-1).propose(view(), 5) == []


def test_what_is_refused_here_is_passed_over() -> None:
    seen = replace(view(), refused=lambda each: "no" if each == COMPILED else None)
    (draft,) = LanguageModelProposer(READY).propose(seen, 5)
    assert draft.candidate == HALF


@given(
    st.floats(0.01, 0.95),
    st.lists(st.sampled_from(["others", "model", "propose"]), max_size=120),
)
def test_whatever_is_tested_next_its_share_is_never_exceeded(share: float, course: list[str]) -> None:
    """The law that `most_standing` is for: it may propose only within it, and be tested before all others."""
    others = standing = tested = 0
    for step in course:
        if step == "others":
            others += 1
        elif step == "propose" and standing < most_standing(share, others):
            standing += 1
        elif step == "model" and tested < standing:
            tested += 1
        assert tested <= share * (tested + others) + 1e-6

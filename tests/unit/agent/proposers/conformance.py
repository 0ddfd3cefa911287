"""What every proposer must do; run it against your own.

from tests.unit.agent.proposers.conformance import ProposerConformance

class TestMine(ProposerConformance):
    def proposer(self) -> Proposer:
        return MyProposer()
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.proposers.dedupe import Earlier, refusal
from agent.proposers.port import CampaignView, Draft, Proposer
from experiments.measurement.judging import Outcome
from tests.unit.agent.campaigns import BASELINE, COMPILED, HALF, SPACE, carried_best, pruned, trial, view

FEWEST_WORDS = 5
"""Words of a claim that may be called a sentence."""


DIGESTS = tuple(point.digest for point in SPACE.points())


def campaigns() -> dict[str, CampaignView]:
    """Views from the first turn of a campaign to its last."""
    supported = trial(COMPILED, Outcome.SUPPORTED, -0.4, hypothesis_id=1, bits=0.0, points=0.0)
    lost = trial(pruned(1), Outcome.REFUTED, -0.08, hypothesis_id=2, bits=0.03, points=-5.0)
    broken = trial(HALF, Outcome.INFEASIBLE, None, hypothesis_id=3, failure="crashed")
    apart = trial(pruned(1, "gdn"), Outcome.SUPPORTED, -0.07, hypothesis_id=4, bits=0.001, points=0.0)
    odd = trial(pruned(2), Outcome.CONFOUNDED, -0.3, hypothesis_id=5)
    elsewhere = [carried_best(pruned(1, control=COMPILED)), carried_best(HALF, campaign="C-2")]
    return {
        "fresh": view(),
        "without a profile": view(profile=()),
        "after a success": view([supported], incumbent=COMPILED, incumbent_hypothesis_id=1),
        "after everything": view(
            [supported, lost, broken, apart, odd], incumbent=COMPILED, incumbent_hypothesis_id=1
        ),
        "after others": view(carried_bests=elsewhere),
        "after others and a success": view(
            [supported], incumbent=COMPILED, incumbent_hypothesis_id=1, carried_bests=elsewhere
        ),
        "after others with bans": view(banned=frozenset({"pruning"}), carried_bests=elsewhere),
        "after others with all taken": view(taken=frozenset(DIGESTS), carried_bests=elsewhere),
        "with bans": view(banned=frozenset({"pruning", "compile"})),
        "all banned": view(banned=frozenset(SPACE.levers)),
        "nearly all taken": view(taken=frozenset(DIGESTS[5:])),
        "all taken": view(taken=frozenset(DIGESTS)),
    }


class ProposerConformance:
    """Subclass it with `proposer`; each test holds for every view of `campaigns`."""

    def proposer(self) -> Proposer:
        """The proposer under test."""
        raise NotImplementedError

    def names(self) -> set[str]:
        """Who its drafts may name: its parts, where it is made of several."""
        one = self.proposer()
        return {part.name for part in getattr(one, "parts", (one,))}

    def speaks_first(self) -> bool:
        """Whether it has something to say before anything was tested."""
        return True

    # Made once for a class: views and drafts are frozen, so that no test changes what another one is given,
    # and that a proposer would say the same again has a test of its own.
    @pytest.fixture(scope="class", params=list(campaigns()))
    @classmethod
    def campaign(cls, request: pytest.FixtureRequest) -> CampaignView:
        return campaigns()[str(request.param)]

    def test_it_proposes_something_in_some_campaign(self) -> None:
        assert any(self.proposer().propose(each, 4) for each in campaigns().values())

    @pytest.fixture(scope="class")
    @classmethod
    def drafts(cls, campaign: CampaignView) -> tuple[Draft, ...]:
        return tuple(cls().proposer().propose(campaign, 8))

    def test_it_proposes_something_in_a_fresh_campaign_or_says_that_it_can_t(self) -> None:
        assert bool(self.proposer().propose(view(), 4)) == self.speaks_first()

    @pytest.mark.parametrize("count", [0, 1, 3])
    def test_it_keeps_to_the_count(self, campaign: CampaignView, count: int) -> None:
        assert len(self.proposer().propose(campaign, count)) <= count

    def test_every_draft_would_be_taken_in(self, drafts: tuple[Draft, ...]) -> None:
        for draft in drafts:
            assert refusal(draft, SPACE, []) is None

    def test_the_control_is_the_incumbent(self, campaign: CampaignView, drafts: tuple[Draft, ...]) -> None:
        assert all(draft.control == campaign.incumbent for draft in drafts)

    def test_no_candidate_is_taken_or_comes_twice(
        self, campaign: CampaignView, drafts: tuple[Draft, ...]
    ) -> None:
        digests = [draft.candidate.digest for draft in drafts]
        assert len(set(digests)) == len(digests)
        assert not campaign.taken & set(digests)

    def test_no_draft_touches_a_banned_lever(self, campaign: CampaignView, drafts: tuple[Draft, ...]) -> None:
        for draft in drafts:
            assert not campaign.banned_levers & set(SPACE.levers_between(draft.control, draft.candidate))

    def test_a_claim_is_a_sentence_and_the_rest_is_not_left_empty(self, drafts: tuple[Draft, ...]) -> None:
        for draft in drafts:
            assert draft.claim[0].isupper()
            assert draft.claim.endswith(".")
            assert len(draft.claim.split()) >= FEWEST_WORDS
            assert draft.rationale
            assert draft.refuted_if
            assert draft.proposer in self.names()

    def test_the_prediction_is_the_surrogates(
        self, campaign: CampaignView, drafts: tuple[Draft, ...]
    ) -> None:
        for draft in drafts:
            assert draft.prediction == campaign.predict(draft.control, draft.candidate)

    def test_the_incumbents_hypothesis_is_a_parent(
        self, campaign: CampaignView, drafts: tuple[Draft, ...]
    ) -> None:
        if campaign.incumbent_hypothesis_id is not None:
            assert all(campaign.incumbent_hypothesis_id in draft.parents for draft in drafts)

    def test_it_is_deterministic_and_keeps_no_state(self, campaign: CampaignView) -> None:
        one = self.proposer()
        first = one.propose(campaign, 5)
        one.propose(view(seed=99), 3)
        assert one.propose(campaign, 5) == first
        assert self.proposer().propose(campaign, 5) == first

    def test_what_it_proposed_is_not_proposed_again_once_taken(self, campaign: CampaignView) -> None:
        first = self.proposer().propose(campaign, 3)
        taken = campaign.taken | {draft.candidate.digest for draft in first}
        again = self.proposer().propose(replace(campaign, taken=taken), 3)
        earlier = [
            Earlier(number, draft.control.digest, draft.candidate.digest, "queued")
            for number, draft in enumerate(first, start=1)
        ]
        assert all(refusal(draft, SPACE, earlier) is None for draft in again)

    def test_the_baseline_is_never_a_candidate_of_a_fresh_campaign(self) -> None:
        assert all(draft.candidate != BASELINE for draft in self.proposer().propose(view(), 20))

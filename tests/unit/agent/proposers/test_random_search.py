"""Random search behind the port."""

from __future__ import annotations

from dataclasses import replace

from agent.proposers.port import Proposer
from agent.proposers.random_search import RandomProposer
from experiments.measurement.judging import Outcome
from tests.unit.agent.campaigns import trial, view
from tests.unit.agent.proposers.conformance import ProposerConformance


class TestRandom(ProposerConformance):
    def proposer(self) -> Proposer:
        return RandomProposer()


def test_there_is_one_draft_a_turn_so_that_nothing_can_be_chosen() -> None:
    [draft] = RandomProposer().propose(view(), 8)
    assert not RandomProposer().propose(view(taken=frozenset({draft.candidate.digest})), 8)


def test_the_next_turn_draws_anew_whatever_the_verdict_was() -> None:
    [first] = RandomProposer().propose(view(), 8)
    drawn = []
    for outcome, change in ((Outcome.SUPPORTED, -0.4), (Outcome.REFUTED, 0.4)):
        told = view([trial(first.candidate, outcome, change)])
        told = replace(told, taken=frozenset({first.candidate.digest}))
        drawn += [each.candidate for each in RandomProposer().propose(told, 8)]
    assert len(drawn) == 2
    assert drawn[0] == drawn[1] != first.candidate


def test_seeds_draw_different_points() -> None:
    points = {
        draft.candidate
        for seed in range(12)
        for draft in RandomProposer().propose(replace(view(), seed=seed), 1)
    }
    assert len(points) > 6

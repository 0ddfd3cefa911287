"""What a space knows to do the same is no change, whichever of both names the best so far has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.proposers.already_runs import already_runs, measured_as
from agent.proposers.optuna_tpe import OptunaProposer
from agent.proposers.port import CampaignView, Proposer
from agent.proposers.random_search import RandomProposer
from agent.proposers.rules import RulesProposer
from experiments.measurement.judging import Outcome
from experiments.space.configuration import KnobValue
from experiments.space.loading import load_space
from experiments.space.workload_rules import BATCH_TOKENS, same_at
from tests.unit.agent import campaigns

VLLM = load_space("vllm")
SPACE = VLLM.passing_over({BATCH_TOKENS: same_at(VLLM, 4, 512, 8192).values()})
"""As a campaign has it of four requests at once of 512 tokens where auto is 8,192: all but 2,048 do it."""


def view(tokens: KnobValue) -> CampaignView:
    named = SPACE.configuration({BATCH_TOKENS: tokens})
    return replace(campaigns.view(), space=SPACE, baseline=named, incumbent=named)


@pytest.mark.parametrize("proposer", [RulesProposer(), OptunaProposer(), RandomProposer()])
@pytest.mark.parametrize("named", ["auto", 4096, 16_384])
def test_no_proposal_changes_a_name_alone_or_beside_another_change(
    proposer: Proposer, named: KnobValue
) -> None:
    found = [
        draft.candidate.get(BATCH_TOKENS)
        for seed in range(8)
        for draft in proposer.propose(replace(view(named), seed=seed), 60)
    ]
    assert found
    assert set(found) <= {named, 2048, None}, "a whole prompt a step has no such knob"


def test_another_name_is_what_runs_already_and_fewer_tokens_are_not() -> None:
    told = view(4096)
    assert already_runs(told, SPACE.with_change(told.incumbent, {BATCH_TOKENS: "auto"}))
    assert already_runs(told, SPACE.with_change(told.incumbent, {BATCH_TOKENS: 16_384}))
    assert not already_runs(told, SPACE.with_change(told.incumbent, {BATCH_TOKENS: 2048}))


def test_what_a_trial_measured_under_one_name_is_measured_under_the_other() -> None:
    eager = {"serving.graph_mode": "none"}
    ran = replace(
        campaigns.trial(campaigns.COMPILED, Outcome.REFUTED, 0.1),
        control=view(4096).incumbent,
        candidate=SPACE.configuration({BATCH_TOKENS: 4096, **eager}),
    )
    told = replace(view(4096), trials=(ran,))
    assert measured_as(told, SPACE.configuration(eager)) == ran
    assert measured_as(told, SPACE.configuration({BATCH_TOKENS: 2048, **eager})) is None

"""Graphs of a lone prompt's step on a campaign's desk: believed, proposed and told as was counted."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from agent.campaign.decision.desk import Desk
from agent.proposers.neighbours import neighbours
from agent.proposers.port import Trial
from agent.proposers.rules import RulesProposer
from experiments.measurement.judging import Outcome
from experiments.space.prompt_graph_rules import GRAPH_TOKENS
from tests.unit.agent.gpu_desk import BASELINE, SPACE, gpu_desk

HELD, BELOW = (SPACE.configuration({GRAPH_TOKENS: tokens}) for tokens in (1024, 512))
TTFT_MS, TPOT_MS = 90.0, 5.3


def adopted() -> Trial:
    """A test that made what captures the prompt the best so far."""
    return Trial(1, 2, BASELINE, HELD, "prompt_graphs", Outcome.SUPPORTED, -0.4, 0.02, None, None, 300.0)


def desk(metric: str, prompt_tokens: int = 1000, captured: int = 32) -> Desk:
    """A campaign of one request at once on an H200."""
    asked = {"concurrency": 1, "prompt_tokens": prompt_tokens, "new_tokens": 33}
    return gpu_desk(
        TPOT_MS, TTFT_MS, workload=asked, metric=metric, incumbent_runs={"max_graph_tokens": captured}
    )


def test_the_first_token_is_expected_to_lose_half_of_its_launches_and_a_request_its_share_of_that() -> None:
    first, whole = desk("ttft_ms"), desk("e2el_ms")
    launches = first.prompt_launches
    assert launches is not None
    assert launches == whole.prompt_launches
    of_first = first.view.predict(BASELINE, HELD).log_ratio_mean
    assert of_first == pytest.approx(launches.effect(1024)[0])
    assert of_first == pytest.approx(math.log1p(-0.5 * launches.beyond))
    share = TTFT_MS / (TTFT_MS + 32 * TPOT_MS)
    of_whole = whole.view.predict(BASELINE, HELD).log_ratio_mean
    assert math.exp(of_whole) == pytest.approx(1 - share * (1 - math.exp(of_first)))
    assert first.view.predict(BASELINE, BELOW).log_ratio_mean == 0


def test_it_is_proposed_with_what_was_counted() -> None:
    view = desk("ttft_ms").view
    told = {idea.candidate: idea.rationale for idea in neighbours(view)}
    assert (
        "The baseline's first token takes 90.0 ms, and the arithmetic of the prompt's 1,000 tokens 34.9 ms "
        "as plans count it"
    ) in told[HELD]
    assert "launching kernels one by one is a guess" in told[HELD]
    assert "launching kernels" not in told[BELOW]
    drafts = RulesProposer().propose(view, 8)
    assert HELD in {each.candidate for each in drafts}


def test_a_best_that_captures_the_prompt_leaves_what_was_expected_of_it() -> None:
    """What it captures is its own number, and not what vLLM chooses."""
    found = desk("ttft_ms", captured=1024)
    facts = replace(found.facts, trials=(adopted(),), incumbent_runs={"max_graph_tokens": 1024})
    best = replace(found, facts=facts)
    assert facts.incumbent is not None
    assert facts.incumbent.configuration == HELD
    assert best.prompt_launches == desk("ttft_ms").prompt_launches is not None


@pytest.mark.parametrize(("metric", "captured"), [("tpot_ms", 32), ("ttft_ms", 1024)])
def test_where_no_token_waits_for_it_nothing_is_counted(metric: str, captured: int) -> None:
    found = desk(metric, captured=captured)
    assert found.prompt_launches is None
    assert abs(found.view.predict(BASELINE, HELD).log_ratio_mean) < 0.01

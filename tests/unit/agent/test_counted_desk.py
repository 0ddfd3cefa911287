"""Tokens of a step on a campaign's desk: believed, ranked and told as they were counted."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from agent.campaign.decision.desk import Desk
from agent.campaign.known.facts import Queued
from agent.proposers.neighbours import neighbours
from agent.proposers.rules import RulesProposer
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from tests.unit.agent.gpu_desk import BASELINE, SPACE, gpu_desk

FEWER, MORE = (SPACE.configuration({"serving.max_batch_tokens": tokens}) for tokens in (2048, 16384))


def queued(number: int, candidate: Configuration) -> Queued:
    return Queued(
        id=number,
        claim="It is faster.",
        control=BASELINE,
        candidate=candidate,
        lever="chunking",
        prediction=Prediction(log_ratio_mean=0.0, log_ratio_sd=0.1),
        min_effect=0.03,
        proposer="neighbours",
        pinned=False,
        rank=None,
        metric="tpot_ms",
    )


def desk(at_once: int, gpu_name: str | None = "NVIDIA H200") -> Desk:
    asked = {
        "concurrency": at_once,
        "prompts_per_block": 4 * at_once,
        "prompt_tokens": 512,
        "new_tokens": 129,
    }
    return gpu_desk(
        10.2,
        1900.0,
        workload=asked,
        queue=(queued(1, FEWER), queued(2, MORE)),
        gpu_name=gpu_name,
        incumbent_runs={"max_batch_tokens": 8192},
    )


def test_what_was_counted_is_believed_before_any_test_and_decides_the_order() -> None:
    found = desk(64)
    steps = found.step_tokens
    assert steps is not None
    for candidate in (FEWER, MORE):
        believed = found.beliefs.predict(BASELINE, candidate).log_ratio_mean
        assert believed == pytest.approx(steps.effect_log("auto", candidate["serving.max_batch_tokens"]))
    more, fewer = found.ranking.places
    assert (more.hypothesis_id, fewer.hypothesis_id) == (2, 1)
    assert "could save" in more.reason
    assert "probably costs" in fewer.reason


@pytest.mark.parametrize(("at_once", "gpu_name"), [(1, "NVIDIA H200"), (64, None), (64, "NVIDIA Unlisted")])
def test_of_one_request_or_an_unlisted_gpu_nothing_is_counted(at_once: int, gpu_name: str | None) -> None:
    found = desk(at_once, gpu_name)
    assert found.step_tokens is None
    assert found.beliefs.predict(BASELINE, FEWER).log_ratio_mean == 0
    assert not [each for each in neighbours(found.view) if "Counted step by step" in each.rationale]


def test_a_proposal_says_what_was_counted_and_for_which_requests() -> None:
    found = desk(64)
    assert found.step_tokens is not None
    percent = round(100 * math.expm1(found.step_tokens.effect_log("auto", 2048)))
    told = {each.candidate.get("serving.max_batch_tokens"): each.rationale for each in neighbours(found.view)}
    assert told[2048].endswith(
        " Counted step by step for 64 requests at once, each of 512 tokens and 129 new ones: with steps of "
        f"at most 2,048 tokens in place of 8,192 a token takes {percent} % more time, by the prompts of "
        "others that are read before it."
    )
    assert " % less time, " in told[16384]
    assert told[8192].endswith(" in place of 8,192 a token takes as long.")


def test_the_rules_say_it_in_place_of_that_nothing_is_known() -> None:
    found = desk(64)
    plain = replace(found.view, step_tokens=None)
    for view, known in ((found.view, True), (plain, False)):
        drafts = [
            each
            for each in RulesProposer().propose(view, 200)
            if BASELINE.changes_to(each.candidate)[0].knob == "serving.max_batch_tokens"
        ]
        assert drafts
        assert all(("Counted step by step" in each.rationale) is known for each in drafts)

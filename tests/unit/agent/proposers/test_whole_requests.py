"""Campaigns about the first token, or about whole requests: rules say of a lever what it does to that, and
bring none that can do nothing to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agent.proposers.drafting_rule import measured_again
from agent.proposers.neighbours import NeighboursProposer
from agent.proposers.optuna_tpe import OptunaProposer
from agent.proposers.port import CampaignView, Draft, Proposer
from agent.proposers.profile import ProfileProposer
from agent.proposers.random_search import RandomProposer
from agent.proposers.roofline import RooflineProposer
from agent.proposers.rules import RulesProposer
from agent.surrogate.lone_prompt import LonePrompt
from experiments.measurement.evidence import Metric
from experiments.measurement.judging import Outcome
from tests.unit.agent import four_levers
from tests.unit.agent.campaigns import BANDWIDTH_BYTES_PER_S, TPOT_MS
from tests.unit.agent.four_levers import mtp, pruned, trial
from tests.unit.agent.proposers.test_profile_rule import view as by_kernels

EVERY = (ProfileProposer(), RooflineProposer(), NeighboursProposer(), RulesProposer())
OF_A_STEP = re.compile(r"\b(step|a token|tokens a|launched|drafts?)\b")
TTFT_MS, NEW_TOKENS = 100.0, 33
SHARE = TTFT_MS / (TTFT_MS + TPOT_MS * (NEW_TOKENS - 1))


def about(objective: Metric, view: CampaignView | None = None, **other: object) -> CampaignView:
    told = four_levers.view(serves_packed=True) if view is None else view
    told = replace(told, bandwidth_bytes_per_s=BANDWIDTH_BYTES_PER_S) if view is None else told
    return replace(told, objective=objective, ttft_ms=TTFT_MS, new_tokens=NEW_TOKENS, **other)  # type: ignore[arg-type]


def reasons(drafts: Sequence[Draft], lever: str) -> list[str]:
    found = [each.rationale for each in drafts if each.lever == lever]
    assert found, f"nothing was proposed of {lever}"
    return found


@pytest.mark.parametrize("proposer", EVERY, ids=lambda each: each.name)
@pytest.mark.parametrize("told", [None, by_kernels()], ids=["parts", "kernels"])
def test_of_first_tokens_no_reason_speaks_of_a_decode_step(
    proposer: RulesProposer, told: CampaignView | None
) -> None:
    drafts = proposer.propose(about(Metric.TTFT_MS, told), 200)
    for each in drafts:
        reason = each.rationale.replace("One step from the best so far", "")
        assert not OF_A_STEP.search(reason), each.rationale
    assert drafts or proposer.name == "profile"


@pytest.mark.parametrize("proposer", EVERY, ids=lambda each: each.name)
def test_what_begins_after_the_first_token_is_not_proposed_to_bring_it_sooner(
    proposer: RulesProposer,
) -> None:
    levers = {each.lever for each in proposer.propose(about(Metric.TTFT_MS), 200)}
    assert not levers & {"drafting", "compile"}
    assert levers
    whole = {each.lever for each in proposer.propose(about(Metric.E2EL_MS), 200)}
    assert whole == {each.lever for each in proposer.propose(about(Metric.TPOT_MS), 200)}


@pytest.mark.parametrize("proposer", [OptunaProposer(), RandomProposer()], ids=lambda each: each.name)
def test_what_draws_points_leaves_what_begins_after_the_first_token_as_it_is(proposer: Proposer) -> None:
    def turned(objective: Metric) -> set[str]:
        turns = [about(objective, seed=seed) for seed in range(6)]
        drafts = [each for turn in turns for each in proposer.propose(turn, 6)]
        assert drafts
        return {lever for each in drafts for lever in each.lever.split("+")}

    assert {"drafting", "compile"} <= turned(Metric.TPOT_MS)
    assert not {"drafting", "compile"} & turned(Metric.TTFT_MS)


def test_a_best_that_drafts_may_stop_drafting_for_the_first_tokens_sake() -> None:
    drafting = about(Metric.TTFT_MS, incumbent=mtp(2, pruned(1)))
    found = [each for each in NeighboursProposer().propose(drafting, 200) if each.lever == "drafting"]
    assert {each.candidate["drafting.method"] for each in found} == {"none"}


def test_drafting_is_not_measured_again_for_first_tokens() -> None:
    before = trial(mtp(3), Outcome.SUPPORTED, -0.2, hypothesis_id=4)
    told = four_levers.view([before], incumbent=pruned(1))
    assert measured_again(about(Metric.TPOT_MS, told))
    assert not measured_again(about(Metric.TTFT_MS, told))


def test_fewer_layers_are_told_by_the_prompt_that_they_read() -> None:
    for reason in reasons(ProfileProposer().propose(about(Metric.TTFT_MS), 200), "pruning"):
        assert reason.startswith("The first token waits for each of 12 layers to read the prompt, and ")


def test_number_formats_and_packed_weights_are_told_by_arithmetic() -> None:
    drafts = RooflineProposer().propose(about(Metric.TTFT_MS), 200)
    for reason in (*reasons(drafts, "dtype"), *reasons(drafts, "quantization")):
        assert "arithmetic more than bytes" in reason
        assert "GB/s" not in reason
    assert all("unpacked" in each for each in reasons(drafts, "quantization"))


def test_of_a_request_the_profile_of_a_prompt_tells_what_products_take_of_its_first_token() -> None:
    profiled = LonePrompt(first_token_ms=70.8, outside_ms=57.2, products_ms=9.3)
    for prompt, told in (
        (None, "and no profile tells what becomes of the former."),
        (
            profiled,
            "of the former, by the baseline's profile products take 9.3 of the 70.8 ms to a lone prompt's "
            "first token.",
        ),
    ):
        drafts = RooflineProposer().propose(about(Metric.E2EL_MS, lone_prompt=prompt), 200)
        for reason in (*reasons(drafts, "dtype"), *reasons(drafts, "quantization")):
            assert told in reason


def test_where_a_lone_prompt_was_profiled_what_products_take_of_it_is_told() -> None:
    profiled = LonePrompt(first_token_ms=70.8, outside_ms=57.2, products_ms=9.3)
    drafts = RooflineProposer().propose(about(Metric.TTFT_MS, lone_prompt=profiled), 200)
    for reason in (*reasons(drafts, "dtype"), *reasons(drafts, "quantization")):
        assert (
            "arithmetic more than bytes (by the baseline's profile products take 9.3 of the 70.8 ms to a "
            "lone prompt's first token), and"
        ) in reason


@pytest.mark.parametrize(
    ("objective", "nothing"),
    [
        (Metric.TPOT_MS, "no step gets faster"),
        (Metric.TTFT_MS, "no first token comes sooner"),
        (Metric.E2EL_MS, "no request gets faster"),
    ],
)
def test_weights_that_are_unpacked_as_they_load_are_said_to_gain_nothing_of_the_metric(
    objective: Metric, nothing: str
) -> None:
    told = about(objective, four_levers.view(serves_packed=False))
    for reason in reasons(RooflineProposer().propose(told, 200), "quantization"):
        assert f"so that {nothing}" in reason
        assert "A step reads" in reason, "the claim is about its bytes"
        assert "Of the baseline's request" not in reason


def test_levers_of_prompts_say_that_the_first_token_waits_for_them() -> None:
    drafts = NeighboursProposer().propose(about(Metric.TTFT_MS, by_kernels()), 200)
    assert all("which the first token waits for" in each for each in reasons(drafts, "chunking"))
    assert all("after the first token" in each for each in reasons(drafts, "graphs"))
    reserved = [*reasons(drafts, "batching"), *reasons(drafts, "context")]
    assert not any("after the first token" in each for each in reserved), "requests may wait for room"
    whole = NeighboursProposer().propose(about(Metric.E2EL_MS, by_kernels()), 200)
    assert all("the first token takes 20 % of" in each for each in reasons(whole, "chunking"))


def test_of_whole_requests_a_reason_tells_the_share_of_the_best_where_that_was_measured() -> None:
    told = about(Metric.E2EL_MS, incumbent=pruned(1), best_first_token_share=0.42)
    for reason in reasons(ProfileProposer().propose(told, 200), "drafting"):
        assert "Of a request of the best so far the first token takes 42 % and the 32 after it 58 %" in reason
    by_parts = about(Metric.E2EL_MS, by_kernels(), best_first_token_share=0.42)
    for reason in reasons(NeighboursProposer().propose(by_parts, 200), "chunking"):
        assert "the first token takes 42 % of a request of the best so far." in reason


@pytest.mark.parametrize(
    ("lever", "counts"),
    [
        ("drafting", "what a step saves counts with the latter alone"),
        ("compile", "what a step saves counts with the latter alone"),
        ("pruning", "layers read the prompt too"),
        ("quantization", "no profile tells what becomes of the former"),
        ("dtype", "no profile tells what becomes of the former"),
    ],
)
def test_of_whole_requests_a_reason_says_how_a_step_counts(lever: str, counts: str) -> None:
    proposer = ProfileProposer() if lever in ("drafting", "compile", "pruning") else RooflineProposer()
    of_tokens = reasons(proposer.propose(about(Metric.TPOT_MS), 200), lever)
    of_requests = reasons(proposer.propose(about(Metric.E2EL_MS), 200), lever)
    assert len(of_requests) == len(of_tokens)
    shares = f"the first token takes {100 * SHARE:.0f} % and the 32 after it {100 - 100 * SHARE:.0f} %"
    for reason in of_requests:
        assert shares in reason
        assert counts in reason
    assert not any("the first token" in each for each in of_tokens)

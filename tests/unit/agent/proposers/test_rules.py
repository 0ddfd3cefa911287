"""The domain rules."""

from __future__ import annotations

from agent.proposers.port import Draft, Proposer
from agent.proposers.rules import RulesProposer
from experiments.measurement.judging import Outcome
from tests.unit.agent.campaigns import BASELINE, COMPILED, HALF, SPACE, changed, pruned, trial, view
from tests.unit.agent.proposers.conformance import ProposerConformance


class TestRules(ProposerConformance):
    def proposer(self) -> Proposer:
        return RulesProposer()


def by_lever(drafts: list[Draft]) -> dict[str, list[Draft]]:
    found: dict[str, list[Draft]] = {}
    for draft in drafts:
        found.setdefault(draft.lever, []).append(draft)
    return found


def test_the_first_drafts_try_every_lever_once() -> None:
    drafts = RulesProposer().propose(view(), len(SPACE.levers))
    assert {draft.lever for draft in drafts} == set(SPACE.levers)


def test_compilation_is_argued_from_the_speed_at_which_bytes_are_read() -> None:
    [draft, *_] = by_lever(RulesProposer().propose(view(), 20))["compile"]
    assert "GB/s: dispatch and not memory is what it waits for" in draft.rationale
    assert "predicted −" in draft.rationale
    assert draft.claim == "Compiling the decode step (cpp_wrapper) makes a token at least 3 % faster." or (
        draft.claim == "Compiling the decode step (default) makes a token at least 3 % faster."
    )


def test_pruning_quotes_the_share_of_the_layers_it_would_remove() -> None:
    drafts = by_lever(RulesProposer().propose(view(), 20))["pruning"]
    one_gdn = next(draft for draft in drafts if draft.candidate == pruned(1, "gdn"))
    share = 100 * (0.8 + 0.2) / sum(part.time_ms for part in view().profile)
    assert f"one gdn layer {share:.1f} % on average" in one_gdn.rationale
    assert one_gdn.claim == "Removing 1 gdn layer makes a token at least 3 % faster."


def test_pruning_starts_with_few_layers() -> None:
    drafts = by_lever(RulesProposer().propose(view(), 50))["pruning"]
    assert {draft.candidate["pruning.layers_removed"] for draft in drafts} == {1, 2}


def test_where_one_layer_lost_the_quality_no_more_of_that_kind_are_proposed() -> None:
    lost = trial(pruned(1, "gdn"), Outcome.REFUTED, -0.08, bits=0.05)
    drafts = by_lever(RulesProposer().propose(view([lost]), 50))["pruning"]
    assert {draft.candidate["pruning.restrict"] for draft in drafts} == {"any", "attention"}


def test_a_pruning_that_was_refuted_for_its_speed_does_not_stop_the_next() -> None:
    slow = trial(pruned(1, "gdn"), Outcome.REFUTED, 0.01, bits=0.0)
    drafts = by_lever(RulesProposer().propose(view([slow]), 50))["pruning"]
    assert pruned(2, "gdn") in [draft.candidate for draft in drafts]


def test_threads_are_tried_next_to_the_incumbents() -> None:
    drafts = by_lever(RulesProposer().propose(view(), 50))["threads"]
    assert [draft.candidate["serving.threads"] for draft in drafts] == [1]


def test_supported_changes_are_put_together_on_top_of_the_incumbent_first_of_all() -> None:
    trials = [
        trial(COMPILED, Outcome.SUPPORTED, -0.4, hypothesis_id=1),
        trial(HALF, Outcome.SUPPORTED, -0.1, hypothesis_id=2),
        trial(pruned(1), Outcome.SUPPORTED, -0.08, hypothesis_id=3),
    ]
    [first, *rest] = RulesProposer().propose(view(trials, incumbent=COMPILED, incumbent_hypothesis_id=1), 50)
    everything = changed({"serving.dtype": "bfloat16"}, pruned(1, control=COMPILED))
    assert first.candidate == everything
    assert first.parents == (1, 2, 3)
    assert "H-002, H-003 were supported" in first.rationale
    assert changed({"serving.dtype": "bfloat16"}, COMPILED) in [draft.candidate for draft in rest]


def test_what_was_refuted_is_not_put_together() -> None:
    trials = [
        trial(COMPILED, Outcome.SUPPORTED, -0.4, hypothesis_id=1),
        trial(HALF, Outcome.REFUTED, 0.1, hypothesis_id=2),
    ]
    drafts = RulesProposer().propose(view(trials, incumbent=COMPILED, incumbent_hypothesis_id=1), 50)
    assert all(len(draft.lever.split("+")) == 1 for draft in drafts)


def test_a_compiled_incumbent_is_not_undone() -> None:
    drafts = RulesProposer().propose(view(incumbent=COMPILED), 50)
    assert BASELINE not in [draft.candidate for draft in drafts]

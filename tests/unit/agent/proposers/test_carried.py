"""The best of another campaign is proposed as one change, as far as it goes here."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from agent.campaign.decision.desk import Desk
from agent.campaign.queue.order import proposals
from agent.proposers.carried import CarriedProposer
from agent.proposers.port import CampaignView, CarriedBest, Proposer, StaleFinding
from agent.proposers.rules import RulesProposer
from agent.surrogate.carried import Carried
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration
from tests.unit.agent import four_levers, test_desk
from tests.unit.agent.campaigns import (
    BASELINE,
    COMPILED,
    HALF,
    SPACE,
    carried_best,
    changed,
    pruned,
    trial,
    view,
)
from tests.unit.agent.proposers.conformance import ProposerConformance

BOTH = pruned(1, control=COMPILED)


class TestCarried(ProposerConformance):
    def proposer(self) -> Proposer:
        return CarriedProposer()

    def speaks_first(self) -> bool:
        return False


def candidates(told: CampaignView) -> list[Configuration]:
    return [each.candidate for each in CarriedProposer().propose(told, 5)]


def rationale(told: CampaignView) -> str:
    [draft] = CarriedProposer().propose(told, 5)
    return draft.rationale


def test_all_of_it_is_one_change_and_says_where_it_was_found() -> None:
    told = view(carried_bests=[carried_best(BOTH, finding="F-003")])
    [draft] = CarriedProposer().propose(told, 5)
    assert (draft.control, draft.candidate, draft.lever) == (BASELINE, BOTH, "compile+pruning")
    assert draft.claim == (
        "Removing 1 layer and compiling the decode step (default) together make a token at least 3 % faster, "
        "as in C-1 (E-0005)."
    )
    assert draft.rationale.startswith(
        "The best of C-1 (E-0005, F-003) changed latency by −50 % over its own baseline. Surrogate: predicted"
    )
    assert draft.prediction == told.predict(BASELINE, BOTH)
    assert draft.builds_on == ("F-003",)
    [of_none] = CarriedProposer().propose(view(carried_bests=[carried_best(BOTH, finding="")]), 5)
    assert of_none.builds_on == ()


def test_it_says_under_what_it_was_measured_where_that_differs() -> None:
    best = replace(
        carried_best(BOTH),
        steps=2,
        differs=(("the model big", "the model small"), ("16 requests at once", "1 request at once")),
    )
    said = rationale(view(carried_bests=[best]))
    assert "by −50 % over its own baseline in 2 steps, each measured against the one before." in said
    assert (
        "That was measured with the model big and 16 requests at once; here it is the model small and 1 "
        "request at once."
    ) in said


def test_only_what_it_changed_there_is_taken_over_on_top_of_the_best_here() -> None:
    one_thread = changed({"serving.threads": 1})
    there = replace(carried_best(pruned(1, control=one_thread)), baseline=one_thread)
    told = view(
        [trial(COMPILED, Outcome.SUPPORTED, -0.4)],
        incumbent=COMPILED,
        incumbent_hypothesis_id=1,
        carried_bests=[there],
    )
    assert candidates(told) == [BOTH]


def test_what_is_the_best_here_already_or_was_proposed_before_is_not_proposed() -> None:
    best = carried_best(BOTH)
    assert candidates(view(carried_bests=[replace(best, configuration=BASELINE)])) == []
    assert candidates(view(carried_bests=[best], taken=frozenset({BOTH.digest}))) == []
    supported = trial(BOTH, Outcome.SUPPORTED, -0.5)
    told = view([supported], incumbent=BOTH, incumbent_hypothesis_id=1, carried_bests=[best])
    assert candidates(told) == []


def test_what_leads_back_to_the_baseline_is_not_proposed() -> None:
    back = carried_best(BASELINE, baseline=COMPILED)
    supported = trial(COMPILED, Outcome.SUPPORTED, -0.4)
    told = view([supported], incumbent=COMPILED, incumbent_hypothesis_id=1, carried_bests=[back])
    assert candidates(told) == []


def test_two_campaigns_that_found_the_same_bring_it_once() -> None:
    told = view(carried_bests=[carried_best(BOTH, campaign=label) for label in ("C-4", "C-1")])
    [draft] = CarriedProposer().propose(told, 5)
    assert "C-4" in draft.claim


def test_the_campaign_of_which_more_is_expected_comes_first() -> None:
    told = view(carried_bests=[carried_best(HALF), carried_best(BOTH, campaign="C-2")])
    assert candidates(told) == [BOTH, HALF]


def test_what_this_space_lacks_is_left_out_and_named() -> None:
    drafting = four_levers.mtp(2)
    there = four_levers.set_to({"serving.compile": "default"}, drafting)
    best = carried_best(there, baseline=four_levers.BASELINE)
    smaller = replace(view(carried_bests=[best]), space=SPACE.restrict({"drafting.draft_tokens": (1, 3)}))
    drafts_less = changed({"serving.compile": "default", "drafting.method": "mtp"})
    assert candidates(smaller) == [drafts_less]
    assert "Without drafting.draft_tokens=2: not in this space." in rationale(smaller)
    strange = carried_best(
        Configuration.of({**COMPILED, "no.such_knob": True, "serving.dtype": "int3"}), baseline=BASELINE
    )
    told = view(carried_bests=[strange])
    assert candidates(told) == [COMPILED]
    assert "Without no.such_knob=true and serving.dtype=int3: not in this space." in rationale(told)
    one, two = (Configuration.of({"no.such_knob": number}) for number in (1, 2))
    nothing = carried_best(two, baseline=one)
    assert candidates(view(carried_bests=[nothing])) == []


def test_a_banned_lever_is_left_out_and_named() -> None:
    told = view(carried_bests=[carried_best(BOTH)], banned=frozenset({"pruning"}))
    assert candidates(told) == [COMPILED]
    assert "pruning.layers_removed=1" in rationale(told)
    assert ": banned." in rationale(told)
    assert candidates(replace(told, banned_levers=frozenset(SPACE.levers))) == []


def test_of_what_is_refused_as_a_whole_as_much_as_is_allowed_is_taken_over() -> None:
    def no_pruning(each: Configuration) -> str | None:
        return "It has too few layers." if each.get("pruning.method") != "none" else None

    told = replace(view(carried_bests=[carried_best(BOTH)]), refused=no_pruning)
    assert candidates(told) == [COMPILED]
    assert "It has too few layers. Surrogate" in rationale(told)
    assert candidates(replace(told, refused=lambda each: "Nothing goes.")) == []


def test_what_a_later_lever_pays_for_is_taken_over_after_it() -> None:
    wide = changed({"serving.dtype": "bfloat16"}, BOTH)

    def too_much(each: Configuration) -> str | None:
        pruned_, compiled = each.get("pruning.method") != "none", each.get("serving.compile") != "off"
        if pruned_ and compiled and each.get("serving.dtype") == "bfloat16":
            return "All three are too much."
        return "It needs compiling." if pruned_ and not compiled else None

    told = replace(view(carried_bests=[carried_best(wide)]), refused=too_much)
    [found] = candidates(told)
    assert len(SPACE.levers_between(BASELINE, found)) == 2
    assert "All three are too much." in rationale(told)


def test_another_draw_of_what_was_there_is_not_taken_over() -> None:
    redrawn = four_levers.set_to({"quantization.seed": 1}, four_levers.AWQ)
    assert redrawn != four_levers.AWQ
    best = carried_best(redrawn, baseline=four_levers.AWQ)
    told = replace(four_levers.view(incumbent=four_levers.AWQ, serves_packed=True), carried_bests=(best,))
    assert candidates(told) == []


def test_rules_bring_it_too() -> None:
    told = view(carried_bests=[carried_best(BOTH)])
    [first, *_] = RulesProposer().propose(told, 3)
    assert (first.candidate, first.proposer) == (BOTH, "carried")


@pytest.mark.parametrize("known", [False, True])
def test_a_campaign_puts_it_first_where_it_believes_in_it(known: bool) -> None:
    """From the outcomes of the other campaign alone, with every proposer of the packaged campaign asked."""
    base = test_desk.BASELINE
    best = test_desk.SPACE.with_change(
        base, {"serving.compile": "cpp_wrapper", "drafting.method": "mtp", "drafting.draft_tokens": 1}
    )
    measured = test_desk.trial(5, base, best, Outcome.SUPPORTED, -1.6)
    compiled = test_desk.trial(4, base, test_desk.COMPILED, Outcome.SUPPORTED, -0.7)
    carried = tuple(
        Carried(each, "C-1", same_model=True, same_workload=True, finding="F-001")
        for each in (compiled, measured)
    )
    found = CarriedBest("C-1", "E-0005", "F-001", base, best, -1.6, steps=1)
    empty = test_desk.desk()
    facts = replace(empty.facts, carried=carried, carried_bests=(found,) if known else (), worked_before=True)
    begun = Desk(facts, empty.legal, empty.baseline, ())
    first, *_ = proposals(begun)
    assert (first.proposer == "carried") is known
    assert (first.candidate == best) is known


UPGRADED = StaleFinding(
    "F-003", {"serving.compile": "default"}, math.log(0.9), (("torch 2.13.0", "torch 2.14.0"),)
)


def test_what_helped_before_an_upgrade_is_proposed_again_with_the_versions_named() -> None:
    told = view(stale_findings=[UPGRADED])
    [draft] = CarriedProposer().propose(told, 5)
    assert (draft.control, draft.candidate, draft.proposer) == (BASELINE, COMPILED, "carried")
    assert draft.claim.endswith("faster, as in F-003.")
    assert draft.builds_on == ("F-003",)
    assert draft.rationale.startswith(
        "F-003 says that it helps with torch 2.13.0; asked again since here torch 2.14.0. "
        "It changed latency by −10 % then. Surrogate: predicted"
    )
    [untold] = CarriedProposer().propose(view(stale_findings=[replace(UPGRADED, effect_log=None)]), 5)
    assert "then. Surrogate" not in untold.rationale


def test_what_helped_before_an_upgrade_is_left_out_where_it_is_had_taken_banned_or_not_to_be_had() -> None:
    supported = trial(COMPILED, Outcome.SUPPORTED, -0.4)
    best = view([supported], incumbent=COMPILED, incumbent_hypothesis_id=1, stale_findings=[UPGRADED])
    back = replace(UPGRADED, change={"serving.compile": "off"})
    baseline = view([supported], incumbent=COMPILED, incumbent_hypothesis_id=1, stale_findings=[back])
    tested = view(stale_findings=[UPGRADED], taken=frozenset({COMPILED.digest}))
    banned = view(stale_findings=[UPGRADED], banned=frozenset({"compile"}))
    strange = view(stale_findings=[replace(UPGRADED, change={"serving.compile": "never seen"})])
    for told in (best, baseline, tested, banned, strange):
        assert candidates(told) == []


def test_what_was_settled_here_since_is_not_asked_again_on_another_control() -> None:
    refuted = trial(COMPILED, Outcome.REFUTED, 0.1)
    here = view([refuted], incumbent=HALF, incumbent_hypothesis_id=1, stale_findings=[UPGRADED])
    assert candidates(here) == []
    open_yet = replace(refuted, outcome=Outcome.INCONCLUSIVE)
    here = view([open_yet], incumbent=HALF, incumbent_hypothesis_id=1, stale_findings=[UPGRADED])
    assert candidates(here) == [changed({"serving.compile": "default"}, HALF)]


def test_a_campaign_after_an_upgrade_asks_again_what_helped_before_it() -> None:
    empty = test_desk.desk()
    drafts = StaleFinding("F-003", {"drafting.method": "mtp"}, -0.5, (("torch 2.13.0", "torch 2.14.0"),))
    begun = Desk(replace(empty.facts, stale_findings=(drafts,)), empty.legal, empty.baseline, ())
    assert any("as in F-003" in each.claim for each in proposals(begun))
    assert not any("as in F-003" in each.claim for each in proposals(empty))

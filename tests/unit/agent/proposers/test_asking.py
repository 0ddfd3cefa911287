"""Each proposer is asked for what its hit rate earns it, and what it does not fill goes to the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice

from agent.proposers.asking import ask, parts_of
from agent.proposers.draft import draft_of
from agent.proposers.neighbours import NeighboursProposer
from agent.proposers.optuna_tpe import OptunaProposer
from agent.proposers.port import CampaignView, Draft
from agent.proposers.profile import ProfileProposer
from agent.proposers.rules import RulesProposer
from knowledge.hit_rates import Hits, Record
from tests.unit.agent import campaigns, four_levers

VIEW = four_levers.view()
EVERY = (RulesProposer(), OptunaProposer())


class Named:
    """Brings the first points of the space that are not taken, under a name, `most` at a time."""

    def __init__(self, name: str, most: int = 1000) -> None:
        self.name, self._most = name, most

    def propose(self, view: CampaignView, count: int) -> list[Draft]:
        points = (p for p in view.space.points() if p != view.incumbent and p.digest not in view.taken)
        found = islice(points, min(count, self._most))
        return [draft_of(view, each, proposer=self.name, rationale="As they come.") for each in found]


def brought(drafts: list[Draft]) -> Counter[str]:
    return Counter(each.proposer for each in drafts)


def test_rules_stand_for_their_parts_and_each_is_asked_once() -> None:
    names = [each.name for each in parts_of((*EVERY, ProfileProposer()))]
    assert names == ["recombination", "profile", "roofline", "neighbours", "optuna"]


def test_in_a_fresh_campaign_all_that_have_something_to_say_are_heard() -> None:
    drafts = ask(VIEW, EVERY, 10, {})
    assert len(drafts) == 10
    assert set(brought(drafts)) == {"profile", "roofline", "neighbours", "optuna"}
    assert len({each.candidate for each in drafts}) == 10


def test_whoever_was_right_more_often_brings_more() -> None:
    records = {"a": Record(20, Hits(10, 20)), "b": Record(20, Hits(0, 20))}
    found = brought(ask(VIEW, (Named("a"), Named("b")), 24, records))
    assert found["a"] > 5 * found["b"]


def test_who_was_never_right_is_heard_again_all_the_same() -> None:
    records = {"a": Record(40, Hits(40, 40)), "b": Record(40, Hits(0, 40))}
    assert brought(ask(VIEW, (Named("a"), Named("b")), 500, records))["b"] >= 1


def test_what_one_does_not_fill_goes_to_the_others() -> None:
    assert brought(ask(VIEW, (Named("a", most=1), Named("b")), 8, {})) == {"a": 1, "b": 7}


def test_what_is_not_kept_fills_no_slot_and_is_not_asked_for_again() -> None:
    seen: list[str] = []

    def keeps(draft: Draft) -> bool:
        seen.append(draft.candidate.digest)
        return draft.lever != "threads"

    drafts = ask(VIEW, (NeighboursProposer(),), 10, {}, keeps)
    assert drafts
    assert all(each.lever != "threads" for each in drafts)
    assert len(seen) == len(set(seen))


def test_asking_ends_where_nobody_has_anything_left() -> None:
    everything = frozenset(each.digest for each in campaigns.SPACE.points())
    assert ask(replace(campaigns.view(), taken=everything), EVERY, 10, {}) == []
    assert ask(VIEW, (), 10, {}) == []

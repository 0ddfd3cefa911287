"""Each proposer is asked for what its hit rate earns it, and what it does not fill goes to the others."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest

from agent.proposers.asking import ask, parts_of
from agent.proposers.draft import draft_of, expected_gains
from agent.proposers.neighbours import NeighboursProposer
from agent.proposers.optuna_tpe import OptunaProposer
from agent.proposers.port import CampaignView, Draft
from agent.proposers.profile import ProfileProposer
from agent.proposers.rules import RulesProposer
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
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
    assert names == ["carried", "recombination", "profile", "roofline", "neighbours", "optuna"]


def test_in_a_fresh_campaign_all_that_have_something_to_say_are_heard() -> None:
    drafts = ask(VIEW, EVERY, 10, {})
    assert len(drafts) == 10
    assert set(brought(drafts)) == {"profile", "roofline", "neighbours", "optuna"}
    assert len({each.candidate for each in drafts}) == 10


def test_whoever_was_right_more_often_brings_more() -> None:
    records = {"a": Record(20, Hits(10, 20)), "b": Record(20, Hits(0, 20))}
    found = brought(ask(VIEW, (Named("a"), Named("b")), 24, records))
    assert found["a"] > 5 * found["b"]


def test_what_promises_most_enters_first_whatever_the_share_of_who_brings_it() -> None:
    fast, slow = (p for p in islice(VIEW.space.points(), 1, 3))
    view = replace(
        VIEW,
        predict=lambda control, candidate: Prediction(
            log_ratio_mean=-0.3 if candidate == fast else 0.0, log_ratio_sd=0.01
        ),
    )

    class One(Named):
        def __init__(self, name: str, candidate: Configuration) -> None:
            super().__init__(name)
            self._candidate = candidate

        def propose(self, view: CampaignView, count: int) -> list[Draft]:
            if self._candidate.digest in view.taken:
                return []
            return [draft_of(view, self._candidate, proposer=self.name, rationale="It alone.")]

    records = {"right": Record(40, Hits(40, 40)), "wrong": Record(40, Hits(0, 40))}
    drafts = ask(view, (One("right", slow), One("wrong", fast)), 2, records)
    assert [each.proposer for each in drafts] == ["wrong", "right"]


def test_what_two_launches_differ_by_promises_nothing() -> None:
    same, faster = (Prediction(log_ratio_mean=mean, log_ratio_sd=0.1) for mean in (0.0, -0.02))
    found = [(same, None), (faster, None), (same, Metric.NLL_BITS)]
    by_chance = expected_gains(VIEW, found)
    assert min(by_chance) > 0.03
    told = expected_gains(replace(VIEW, launches_sd_log=0.1), found)
    assert told == pytest.approx([0.0, -math.expm1(-0.02), by_chance[2]]), "bits have no launches"


def test_what_a_proposer_predicts_itself_gives_it_no_first_slot() -> None:
    boasts, modest = Named("boasts"), Named("modest")

    class Boasting(Named):
        def propose(self, view: CampaignView, count: int) -> list[Draft]:
            told = Prediction(log_ratio_mean=-5.0, log_ratio_sd=0.01)
            return [replace(each, prediction=told) for each in boasts.propose(view, count)]

    promised = {each.candidate: each for each in Boasting("boasts").propose(VIEW, 1)}
    drafts = ask(VIEW, (modest, Boasting("boasts")), 1, {})
    assert drafts[0].candidate in promised
    assert drafts[0].proposer == "modest"


def test_who_was_never_right_is_heard_again_all_the_same() -> None:
    records = {"a": Record(40, Hits(40, 40)), "b": Record(40, Hits(0, 40))}
    assert brought(ask(VIEW, (Named("a"), Named("b")), 500, records))["b"] >= 1


def test_what_one_does_not_fill_goes_to_the_others() -> None:
    # of equal promise the first slot is the first's, and it brings one more by its share
    assert brought(ask(VIEW, (Named("a", most=1), Named("b")), 8, {})) == {"a": 2, "b": 6}


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

"""Whatever the user says to the queue, the reason of what it concerns cites the event."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.ranking.ranking import BOOST_FACTOR, FOCUS_FACTOR, rank
from agent.ranking.values import Candidate, Directive, Used
from db.states import DirectiveKind
from knowledge.acts.lever_steering import SENTENCES

EVENT = 4711
GIVEN = Directive(DirectiveKind.FOCUS, EVENT, "you", "12:03")
ONE = Candidate(1, ("compile",), -0.1, 0.05, 0.9, 0.9, 60.0)
OTHER = replace(ONE, hypothesis_id=2, levers=("dtype",), log_ratio_mean=-0.2)

STEERED: dict[DirectiveKind, Directive] = {
    DirectiveKind.FOCUS: replace(GIVEN, lever="compile"),
    DirectiveKind.BOOST: replace(GIVEN, kind=DirectiveKind.BOOST, lever="compile"),
    DirectiveKind.BAN: replace(GIVEN, kind=DirectiveKind.BAN, lever="compile"),
    DirectiveKind.CAP: replace(GIVEN, kind=DirectiveKind.CAP, lever="compile", tests=3),
    DirectiveKind.RESERVE: replace(GIVEN, kind=DirectiveKind.RESERVE, lever="compile", share=0.9),
    DirectiveKind.PRIORITY: replace(GIVEN, kind=DirectiveKind.PRIORITY, hypothesis_id=1),
    DirectiveKind.PIN: replace(GIVEN, kind=DirectiveKind.PIN, hypothesis_id=1),
    DirectiveKind.QUESTION: replace(GIVEN, kind=DirectiveKind.QUESTION, hypothesis_id=1),
    DirectiveKind.APPROVAL: replace(GIVEN, kind=DirectiveKind.APPROVAL, hypothesis_id=1, up_to_s=100.0),
}
ORDERS_NOTHING = {DirectiveKind.NOTE}


@pytest.mark.parametrize("kind", DirectiveKind)
def test_each_kind_of_steering_is_cited_where_it_bears_and_nowhere_else(kind: DirectiveKind) -> None:
    if kind in ORDERS_NOTHING:
        assert kind not in STEERED
        return
    settles = "H-001" if kind is DirectiveKind.QUESTION else None
    ranking = rank(
        [replace(ONE, settles=settles), OTHER],
        [STEERED[kind]],
        approve_above_s=30.0 if kind is DirectiveKind.APPROVAL else float("inf"),
        used=Used(6, {"compile": 3}, {"compile": 180.0}),
    )
    reasons = {place.hypothesis_id: place.reason for place in ranking.places}
    assert f"by you at 12:03 (event {EVENT})" in reasons[1]
    assert "event" not in reasons[2]


def test_what_a_directive_says_of_its_factor_is_what_the_ranking_does() -> None:
    words = {5.0: "five times", 2.0: "twice"}
    assert words[FOCUS_FACTOR] in SENTENCES[DirectiveKind.FOCUS]
    assert words[BOOST_FACTOR] in SENTENCES[DirectiveKind.BOOST]


def test_a_chance_next_to_nothing_is_told_as_that() -> None:
    [place] = rank([replace(ONE, p_quality=1e-17)]).places
    assert "quality held with P < 0.01, runs with P 0.90" in place.reason

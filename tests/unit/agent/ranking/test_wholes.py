"""What another campaign found best stands before its own parts, as long as that pays nearly as well.

The figures of the first test are those of a campaign whose best was known from another one and was not
tested: a part of it, six times as cheap, stood before it (docs/results/transfer.md, seed 8).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.ranking.ranking import rank
from agent.ranking.values import Candidate, Directive
from db.states import DirectiveKind
from tests.unit.agent.ranking.test_ranking import one

WHOLE = one(41, mean=-1.3, sd=0.1, p_quality=0.97, cost_s=155.0, levers=("compile", "drafting"))
DRAFTING = one(45, mean=-0.2, sd=0.1, p_quality=0.97, cost_s=27.0, levers=("drafting",))
OTHER = one(50, mean=-0.35, sd=0.1, p_quality=0.97, cost_s=30.0, levers=("threads",))


def part(each: Candidate = DRAFTING) -> Candidate:
    return replace(each, part_of=(WHOLE.hypothesis_id,))


def test_a_cheap_part_waits_behind_the_whole_that_brings_it_along() -> None:
    assert rank([WHOLE, DRAFTING]).order == (45, 41), "by score alone the part is first"
    found = rank([WHOLE, part()])
    assert found.order == (41, 45)
    assert (
        "before H-045, which is a part of it: another campaign found the whole best" in found.places[0].reason
    )
    assert found.places[0].score < found.places[1].score, "scores stay what they are"


def test_what_is_no_part_of_it_keeps_its_place() -> None:
    assert rank([WHOLE, part(), OTHER]).order == (50, 41, 45)


@pytest.mark.parametrize(
    ("whole", "why"),
    [
        (replace(WHOLE, p_feasible=0.4), "it will hardly run"),
        (replace(WHOLE, p_quality=0.4), "it will hardly hold the quality"),
        (replace(WHOLE, cost_s=900.0), "its parts pay far more a second"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_whole_that_is_a_gamble_waits(whole: Candidate, why: str) -> None:
    assert rank([whole, part()]).order == (45, 41), why


def test_pins_moves_and_bans_hold_over_it() -> None:
    pin = Directive(DirectiveKind.PIN, 41, "sam", "12:03", None, 45)
    assert rank([WHOLE, part()], [pin]).order == (45, 41)
    moved = Directive(DirectiveKind.PRIORITY, 42, "sam", "12:03", None, 45)
    assert rank([WHOLE, part()], [moved]).order == (45, 41)
    ban = Directive(DirectiveKind.BAN, 43, "sam", "12:03", "compile")
    assert rank([WHOLE, part()], [ban]).order == (45, 41)

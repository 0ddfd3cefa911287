"""What must be built is charged in equal parts to all in the queue that will use it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ranking.moves import moves
from agent.ranking.ranking import rank
from agent.ranking.sharing import shared_builds
from agent.ranking.values import Candidate, Cause, Directive
from db.states import DirectiveKind

BUILDS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1000), max_size=3).map(dict), st.booleans()
    ),
    max_size=12,
)


def candidate(number: int, lever: str = "quantization", mean: float = -0.1, **builds_s: float) -> Candidate:
    cost_s = 60.0 + math.fsum(builds_s.values())
    return Candidate(number, (lever,), mean, 0.02, 1.0, 1.0, cost_s, builds_s=builds_s)


@given(BUILDS)
def test_an_artifact_is_paid_for_once_whoever_uses_it(found: list[tuple[dict[str, float], bool]]) -> None:
    one_price = {key: 100.0 for each, _ in found for key in each}
    builds = [{key: one_price[key] for key in each} for each, _ in found]
    shared = shared_builds(builds, [True] * len(builds))
    charged = math.fsum(
        math.fsum(each.values()) - part.spared_s for each, part in zip(builds, shared, strict=True)
    )
    assert charged == pytest.approx(math.fsum(one_price.values()))


@given(BUILDS)
def test_nobody_is_charged_more_than_alone_or_less_than_nothing(
    found: list[tuple[dict[str, float], bool]],
) -> None:
    builds, uses = [each for each, _ in found], [user for _, user in found]
    for each, part in zip(builds, shared_builds(builds, uses), strict=True):
        assert -1e-9 <= part.spared_s <= math.fsum(each.values()) + 1e-9


def test_two_that_share_a_checkpoint_overtake_one_that_needs_its_own() -> None:
    alone = candidate(1, mean=-0.11, x=100.0)
    two = [candidate(2, y=100.0), candidate(3, y=100.0)]
    assert rank([alone, two[0]]).order == (1, 2)
    ranking = rank([alone, *two])
    assert ranking.order == (2, 3, 1)
    first, _, last = ranking.places
    assert first.weighed_s == pytest.approx(60 + 50)
    assert first.cost_s == 160.0, "who runs first takes all of it"
    assert "; 1 min 40 s of it build what another in the queue can use too, and count as 50 s" in first.reason
    assert "of it build" not in last.reason


def test_what_is_banned_or_not_worth_a_test_bears_nothing() -> None:
    ban = Directive(DirectiveKind.BAN, 7, "you", "12:00", lever="pruning")
    banned = rank([candidate(1, y=100.0), candidate(2, lever="pruning", y=100.0)], [ban])
    assert banned.places[0].spared_s == 0
    worthless = rank([candidate(1, y=100.0), candidate(2, mean=0.5, y=100.0)])
    assert worthless.places[0].spared_s == 0
    assert worthless.places[1].spared_s == pytest.approx(50), "beside one that will be run it costs half"


def test_a_move_says_that_another_bears_part_of_the_building() -> None:
    alone, sharing = candidate(1, mean=-0.11, x=100.0), candidate(2, y=100.0)
    found = moves(
        rank([alone, sharing]), rank([alone, sharing, candidate(3, y=100.0)]), Cause(9, "H-003 came from you")
    )
    [rose] = [each for each in found if each.hypothesis_id == 2]
    assert rose.reason == (
        "what others bear of its building rose from 0 s to 50 s, after H-003 came from you (event 9)"
    )

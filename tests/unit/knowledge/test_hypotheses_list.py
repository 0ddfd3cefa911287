"""The list of hypotheses: filters, search, order and paging by the database."""

import pytest

from db.labels import Noun, parse_label_of
from db.states import HypothesisState
from knowledge.queries.claims.hypotheses import HypothesisSort, facets, list_hypotheses
from knowledge.queries.claims.hypothesis_detail import hypothesis_detail
from tests.history.campaign_history import History


def listed(history: History, **asked: object) -> list[int]:
    with history.database.read() as session:
        page = list_hypotheses(session, **{"limit": 50, **asked})  # type: ignore[arg-type]
    return [parse_label_of(Noun.HYPOTHESIS, row.id) for row in page.items]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"lever": "threads"}, {1, 4, 6}),
        ({"proposer": "rules", "states": [HypothesisState.REFUTED]}, {2}),
        ({"proposer": "nobody"}, set()),
        ({"text": "ONE thread"}, {1}),
        ({"text": "h-4"}, {4}),
        ({"text": "100%"}, set()),
        ({"text": "  "}, {1, 2, 3, 4, 5, 6, 7}),
        ({"text": "fewer bytes"}, {1, 2, 3, 4, 5, 6, 7}),
    ],
)
def test_all_filters_must_hold(full_history: History, asked: dict[str, object], found: set[int]) -> None:
    assert set(listed(full_history, **asked)) == found


def test_the_order_is_whole_and_can_be_turned(full_history: History) -> None:
    assert listed(full_history, sort=HypothesisSort.NUMBER) == [7, 6, 5, 4, 3, 2, 1]
    assert listed(full_history, sort=HypothesisSort.NUMBER, reverse=True) == [1, 2, 3, 4, 5, 6, 7]
    assert listed(full_history, sort=HypothesisSort.MEASURED) == [1, 4, 2, 7, 6, 5, 3]  # the unmeasured last
    assert listed(full_history, sort=HypothesisSort.MEASURED, reverse=True)[:3] == [2, 4, 1]
    standing = listed(full_history)
    assert standing[:3] == [5, 6, 7]  # under test, then by rank
    assert sorted(standing) == sorted(listed(full_history, sort=HypothesisSort.PREDICTED))


def test_pages_join_into_the_whole(full_history: History) -> None:
    whole = listed(full_history, sort=HypothesisSort.MEASURED)
    parts = [
        listed(full_history, sort=HypothesisSort.MEASURED, limit=3, offset=offset) for offset in (0, 3, 6)
    ]
    assert [each for part in parts for each in part] == whole


def test_facets_count_each_lever_of_a_joint_change(full_history: History) -> None:
    with full_history.database.read() as session:
        found = facets(session)
    assert found.states["supported"] == 1
    assert sum(found.states.values()) == 7
    assert found.levers["threads"] == 3
    assert found.proposers == {"rules": 7}


def test_a_move_tells_what_caused_it_and_a_test_what_came_of_it(full_history: History) -> None:
    with full_history.database.read() as session:
        moved = hypothesis_detail(session, 6)
        judged = hypothesis_detail(session, 1)
    assert (moved.moves[0].from_rank, moved.moves[0].to_rank) == (3, 1)
    assert moved.moves[0].cause == "Something was judged."
    assert judged.experiments[0].outcome == "supported"
    assert judged.experiments[0].effect is not None
    assert [each.id for each in judged.led_to] == list(judged.children) == ["H-002"]
    assert judged.findings
    assert judged.findings[0].relation == "supports"

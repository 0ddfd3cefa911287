"""The whole graph lever by lever: what was tried of each, what came of it, and what only waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from db.models import Hypothesis
from db.states import HypothesisState, VerdictOutcome
from knowledge.queries.lanes import MOST_LINES, Lane, list_lanes
from tests.history.campaign_history import BASE, SPACE, History


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def levers(lanes: tuple[Lane, ...]) -> list[str | None]:
    return [each.lever for each in lanes]


def test_a_lane_says_what_was_tested_and_found_and_folds_what_waits(history: History) -> None:
    tested = history.propose({"serving.threads": 1})
    history.judge(tested, VerdictOutcome.SUPPORTED)
    history.propose({"serving.threads": 4})
    history.propose({"serving.dtype": "bfloat16"})
    with history.database.read() as session:
        found = list_lanes(session)
    (lane,) = found.lanes
    assert lane.states == {HypothesisState.SUPPORTED: 1, HypothesisState.QUEUED: 1}
    (line,) = lane.lines
    assert (line.id, line.findings) == ("H-001", ("F-001",))
    assert [(each.id, each.outcome) for each in line.tests] == [("E-0001", "supported")]
    (waits,) = found.untested
    assert waits.lines == ()
    assert waits.states == {HypothesisState.QUEUED: 1}
    history.close()


def test_what_was_found_comes_first_and_no_lane_grows_without_end(history: History) -> None:
    good = history.propose({"serving.threads": 1})
    history.judge(good, VerdictOutcome.SUPPORTED)
    halved = SPACE.with_change(BASE, {"serving.dtype": "bfloat16"})
    for control, threads in [(BASE, 4), (BASE, 8), (BASE, 16), (halved, 4), (halved, 8), (halved, 16)]:
        refuted = history.propose({"serving.threads": threads}, control=control)
        history.judge(refuted, VerdictOutcome.REFUTED)
    with history.database.read() as session:
        (lane,) = list_lanes(session).lanes
        (alone,) = list_lanes(session, lane.lever).lanes
    assert [each.id for each in lane.lines[:2]] == ["H-001", "H-007"]
    assert (len(lane.lines), lane.more) == (MOST_LINES, 7 - MOST_LINES)
    assert (len(alone.lines), alone.more) == (7, 0)
    history.close()


def test_what_joins_many_levers_shares_a_lane(history: History) -> None:
    for threads in (1, 4):
        hypothesis = history.propose({"serving.threads": threads})
        with history.database.write() as session:
            session.get_one(Hypothesis, hypothesis).lever = "+".join(["a", "b", "c", f"d{threads}"])
    with history.database.read() as session:
        assert levers(list_lanes(session).untested) == [None]
        assert levers(list_lanes(session, "d4").untested) == [None]
        assert list_lanes(session, "d").untested == ()
    history.close()

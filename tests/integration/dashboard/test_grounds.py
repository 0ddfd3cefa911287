"""What pages decide on: read anew after an event, without what needs no doing again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.asking.assumed import EACH
from dashboard.grounds import consequences, ground_of
from db.session import Database
from tests.history.large_history import large_history
from tests.history.large_story import Size

SIZE = Size(experiments=400, events=200)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = large_history(tmp_path, SIZE)
    yield found
    found.close()


MOST_LOOKS = 10
"""Times that Python looks for garbage between what is worked out without; of this history 40 otherwise."""


def test_while_a_ground_is_read_and_learnt_from_garbage_is_hardly_looked_for(database: Database) -> None:
    looks: list[int] = []

    def note(phase: str, told: dict[str, int]) -> None:
        if phase == "start":
            looks.append(told["generation"])

    gc.callbacks.append(note)
    try:
        with database.read() as session:
            desk = ground_of(session, 1).desk
            assert desk is not None
            assert consequences(session, 1, desk.ranking.order[0], EACH)
    finally:
        gc.callbacks.remove(note)
    assert len(looks) <= MOST_LOOKS

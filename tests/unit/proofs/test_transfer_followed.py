"""Who knows another table and follows it: a yardstick of the proof of transfer."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.replay.table import Table
from tests.proofs.transfer_followed import followed, section
from tests.proofs.transfer_tables import Pair
from tests.unit.agent.replay.synthetic import LINES, table


def made(folder: Path, name: str, *lines: str) -> Table:
    (folder / name).mkdir()
    return table(folder / name, None, *lines)


@pytest.fixture
def turned_over() -> tuple[str, ...]:
    """The same configurations, of which the best comes last; what did not run there runs here."""
    return (*LINES[:5], "awq,4,green,9.9 9.9 9.9,1.005,yes,300,50", *LINES[6:])


def test_the_same_table_followed_finds_its_best_at_once_but_for_what_loses_quality(tmp_path: Path) -> None:
    whole = made(tmp_path, "whole")
    assert followed([whole], whole, 0.95) == 2, "3 ms comes before, and loses quality"
    without = made(tmp_path, "without", *LINES[:7], *LINES[8:])
    assert followed([without], without, 0.95) == 1


def test_where_the_order_turns_over_following_takes_longer(
    tmp_path: Path, turned_over: tuple[str, ...]
) -> None:
    here, there = made(tmp_path, "here"), made(tmp_path, "there", *turned_over)
    assert followed([there], here, 0.95) == 7
    assert followed([there, here], here, 0.95) == 4, "by the mean of both"


def test_what_is_not_in_the_other_table_can_not_be_followed(tmp_path: Path) -> None:
    here, there = made(tmp_path, "here"), made(tmp_path, "there", *LINES[:6])
    assert followed([there], here, 0.95) is None
    assert followed([here], there, 0.95) == 1, "though more is there"
    pairs = [Pair(("here",), "there", "rows"), Pair(("there",), "here", "rows")]
    grounds = {"here": here, "there": there}
    assert section(pairs, grounds.__getitem__, 0.95) == []
    words, found = section(pairs[:1], grounds.__getitem__, 0.95)
    assert found.splitlines()[-1] == "| rows | 1 | 1.00 | 1 |"
    assert "It is no bound" in words

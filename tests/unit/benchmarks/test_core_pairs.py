"""Which processors share a core, by the time that work on one takes beside work on another."""

import json
import os
from pathlib import Path

import pytest

from configs.core_shares import usable
from tests.device import core_pairs
from tests.device.core_pairs import main, slowdowns

EVERY = sorted(usable())


def test_the_same_processor_asked_to_work_twice_is_found_slower() -> None:
    """Two works on one processor take turns: the most that a shared core can do to each other."""
    before = os.sched_getaffinity(0)
    try:
        tries = (slowdowns(EVERY[0], [EVERY[0]])[EVERY[0]] for _ in range(5))  # others may work meanwhile
        assert any(found > core_pairs.SLOWER for found in tries)
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.skipif(len(EVERY) < 2, reason="takes two processors")
def test_it_tells_each_that_it_is_asked_about_and_keeps_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = os.sched_getaffinity(0)
    try:
        assert main(["--of", str(EVERY[1]), "--json", str(tmp_path / "pairs.json")]) == 0
    finally:
        os.sched_setaffinity(0, before)
    assert capsys.readouterr().out.startswith(f"{EVERY[1]}: work takes 20% longer or more beside ")
    kept = json.loads((tmp_path / "pairs.json").read_text(encoding="utf-8"))
    assert {int(other) for other in kept[str(EVERY[1])]} == {*EVERY} - {EVERY[1]}


def test_a_processor_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--of", "99999"])
    assert ended.value.code == 2
    assert "invalid choice: 99999" in capsys.readouterr().err

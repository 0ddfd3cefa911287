"""The ends of logs: bounded, within the folder of all runs, without what a terminal would obey."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.worker.log_tails import TAIL_BYTES, log_tails, plain


@pytest.fixture
def root(tmp_path: Path) -> Path:
    launches = tmp_path / "jobs" / "job1-ab-1" / "launches"
    launches.mkdir(parents=True)
    (launches.parent / "log.txt").write_text("static: check\n")
    for name in ("quick-control-0", "quick-candidate-0", "quickest-control-0"):
        (launches / f"{name}.log").write_text(f"{name}\n")
    (tmp_path / "secret.log").write_text("secret")
    return tmp_path / "jobs"


def test_the_run_tells_and_so_do_the_launches_of_a_stage(root: Path) -> None:
    (own,) = log_tails(root, "job1-ab-1") or ()
    assert (own.name, own.bytes, own.text, own.cut) == ("log.txt", 14, "static: check\n", False)
    found = log_tails(root, "job1-ab-1", "quick") or ()
    assert [each.name for each in found] == ["quick-candidate-0.log", "quick-control-0.log"]
    assert log_tails(root, "job1-ab-1", "full") == ()


def test_a_long_log_is_cut_at_a_line(root: Path) -> None:
    line = "x" * 99 + "\n"
    (root / "job1-ab-1" / "log.txt").write_text(line * 2000)
    (tail,) = log_tails(root, "job1-ab-1") or ()
    assert tail.cut
    assert tail.bytes == 200_000
    assert TAIL_BYTES - 100 <= len(tail.text) <= TAIL_BYTES
    assert tail.text.startswith("x" * 99 + "\n")


@pytest.mark.parametrize("key", ["..", ".", "../jobs/../..", "job1-ab-1/launches", "missing", "/etc", "link"])
def test_nothing_outside_the_folder_of_runs_is_read(root: Path, key: str) -> None:
    (root / "link").symlink_to(root.parent, target_is_directory=True)
    assert log_tails(root, key) is None


def test_a_link_that_leads_out_is_not_followed(root: Path) -> None:
    run = root / "job1-ab-1"
    (run / "launches" / "quick-control-1.log").symlink_to(root.parent / "secret.log")
    (run / "log.txt").unlink()
    (run / "log.txt").symlink_to(root.parent / "secret.log")
    assert log_tails(root, "job1-ab-1") == ()
    names = [each.name for each in log_tails(root, "job1-ab-1", "quick") or ()]
    assert "quick-control-1.log" not in names


def test_colours_and_control_characters_are_taken_out() -> None:
    assert plain("\x1b[31mred\x1b[0m\ta\x00b\r\nc\rd") == "red\ta\ufffdb\nc\nd"

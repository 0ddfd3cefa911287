"""A remote log is copied once, whatever dies while it is."""

import json
from pathlib import Path

from experiments.executors.port import LogChunk
from experiments.remote.logs import LogCopy

TEXT = "loading weights µ\nready\n" * 20


class Told:
    """An executor as far as logs go: seven characters a time."""

    def logs(self, ref: str, cursor: int = 0) -> LogChunk | None:
        return LogChunk(TEXT[cursor : cursor + 7], min(len(TEXT), cursor + 7))


def copied(root: Path) -> str:
    return (root / "key" / "log.txt").read_text()


def follow(root: Path, looks: int) -> None:
    copy = LogCopy(root, "key")
    for _ in range(looks):
        copy.update(Told(), "ref")  # type: ignore[arg-type]


def test_a_log_is_followed_to_its_end(tmp_path: Path):
    follow(tmp_path, 10)
    assert copied(tmp_path) == TEXT


def test_another_worker_reads_on_where_the_last_one_was(tmp_path: Path):
    follow(tmp_path, 2)
    assert TEXT.startswith(copied(tmp_path))
    assert copied(tmp_path) != TEXT
    follow(tmp_path, 10)
    assert copied(tmp_path) == TEXT


def test_what_was_appended_and_not_counted_is_not_doubled(tmp_path: Path):
    """As after a kill between the two writes."""
    follow(tmp_path, 2)
    with (tmp_path / "key" / "log.txt").open("a") as log:
        log.write("half of what comes next")
    follow(tmp_path, 10)
    assert copied(tmp_path) == TEXT


def test_a_count_that_is_no_json_begins_anew(tmp_path: Path):
    follow(tmp_path, 2)
    (tmp_path / "key" / "copied.json").write_text("{")
    follow(tmp_path, 10)
    assert copied(tmp_path) == TEXT
    assert json.loads((tmp_path / "key" / "copied.json").read_text())["cursor"] == len(TEXT)

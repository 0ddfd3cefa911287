"""Scratch folders: what a killed process left goes when the next folder is made, and nothing else."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from experiments.scratch import HELD, ScratchFolder, sweep
from tests.waiting import PATIENCE_S

MAKE_AND_WAIT = """
import sys, time
from pathlib import Path
from experiments.scratch import ScratchFolder
with ScratchFolder("launch", Path(sys.argv[1])) as folder:
    (folder / "below").mkdir()
    (folder / "below" / "weights").write_bytes(b"0" * 1000)
    print(folder, flush=True)
    time.sleep(600)
"""
"""Makes a folder, and waits to be ended."""


def started(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", MAKE_AND_WAIT, str(parent)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_folder_is_gone_with_all_that_is_in_it_when_it_is_closed(tmp_path: Path) -> None:
    with ScratchFolder("launch", tmp_path / "new") as folder:
        (folder / "file").write_text("x")
        assert folder.name.startswith("launch-")
        assert folder.stat().st_mode & 0o077 == 0
    assert list((tmp_path / "new").iterdir()) == []
    twice = ScratchFolder("launch", tmp_path)
    twice.close()
    twice.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_what_a_killed_process_left_is_swept_by_the_next_and_what_a_living_one_has_stays(
    tmp_path: Path, how: signal.Signals
) -> None:
    lives, kept = started(tmp_path)
    dies, left = started(tmp_path)
    with lives, dies:
        dies.send_signal(how)
        dies.wait(PATIENCE_S)
        assert (left / "below" / "weights").is_file(), "nothing ran that could have deleted it"
        with ScratchFolder("launch", tmp_path) as mine:
            assert set(tmp_path.iterdir()) == {kept, mine}
            assert (kept / "below" / "weights").is_file()
        lives.kill()
    sweep("launch", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_of_the_kind_or_not_made_by_autoinfer_is_left_alone(tmp_path: Path) -> None:
    mine = ScratchFolder("other", tmp_path)
    os.close(mine._held or 0)
    for name in ("launch-of-the-user", "launch-1234-abcdefgh"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    (tmp_path / "launch-file").write_text("x")
    pointed = tmp_path / "precious"
    pointed.mkdir()
    (pointed / HELD).symlink_to(tmp_path / "launch-file")
    (tmp_path / "launch-link").symlink_to(pointed)
    before = sorted(tmp_path.rglob("*"))
    sweep("launch", tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_is_there_while_it_is_held_however_many_sweep_meanwhile(tmp_path: Path) -> None:
    over = threading.Event()

    def sweeps() -> None:
        while not over.is_set():
            sweep("launch", tmp_path)

    threads = [threading.Thread(target=sweeps) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(150):
            with ScratchFolder("launch", tmp_path) as folder:
                (folder / "file").write_text("x")
                assert (folder / HELD).is_file()
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert list(tmp_path.iterdir()) == []

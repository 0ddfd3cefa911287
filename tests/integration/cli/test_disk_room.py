"""`autoinfer run` holds what a campaign will write against what is free before it begins."""

import json
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest

from db.session import open_database
from tests.integration.cli.command import Autoinfer, Ended, command_words

MOUNTED = 'mount -t tmpfs -o size="$1" tmpfs "$2" || exit 77; shift 2; exec "$@"'


def on_a_small_disk(autoinfer: Autoinfer, tmp_path: Path, size: str, command: str) -> Ended:
    """The command with its data folder on a disk of its own that nobody else sees."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here to mount a small disk with")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = autoinfer.under("unshare", "--mount", "sh", "-c", MOUNTED, "sh", size, str(disk))
    ended = mounted(command, AUTOINFER_DATA_DIR=str(disk))
    if ended.code == 77 or "unshare" in ended.err:
        pytest.skip("no right to mount a small disk")
    return ended


def test_a_campaign_whose_baseline_has_no_room_is_refused_before_it_begins(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    ran = on_a_small_disk(autoinfer, tmp_path, "60m", "run --no-dashboard --budget 1s")
    assert ran.code == 1
    assert "The campaign needs 101 MB in" in ran.err
    assert "before its first test (the token distributions of the baseline), and 6" in ran.err
    assert "autoinfer artifacts prune" in ran.err
    assert "No campaign was begun." in ran.err
    assert "C-1" not in ran.out


def test_a_campaign_whose_questions_may_fill_the_disk_begins_and_says_so(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    ran = on_a_small_disk(autoinfer, tmp_path, "300m", "run levers --no-dashboard --budget 1s")
    assert "C-1" in ran.out
    told = " ".join(ran.out.split())
    assert " may become full: " in told
    assert "27 checkpoints that its questions build" in told


@pytest.mark.parametrize(
    "command", ["campaign list --json", "log --json", "artifacts prune --unused-for 1d --jobs --json"]
)
def test_what_reads_or_makes_room_does_so_on_a_full_disk(
    autoinfer: Autoinfer, tmp_path: Path, command: str
) -> None:
    ran = on_a_full_disk(autoinfer, tmp_path)(command)
    if ran.code == 77 or "unshare" in ran.err:
        pytest.skip("no right to mount a small disk")
    assert (ran.code, ran.err) == (0, "")


def test_what_writes_names_a_whole_command_that_makes_room(autoinfer: Autoinfer, tmp_path: Path) -> None:
    ran = on_a_full_disk(autoinfer, tmp_path)("run --no-dashboard")
    if ran.code == 77 or "unshare" in ran.err:
        pytest.skip("no right to mount a small disk")
    assert ran.code == 1
    assert "No space is left on the disk of" in ran.err
    assert "autoinfer artifacts prune --unused-for 1d" in ran.err


def on_a_full_disk(autoinfer: Autoinfer, tmp_path: Path) -> Callable[[str], Ended]:
    """Runs a command with its data folder on a full disk of its own, with a database and nothing else."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here to mount a small disk with")
    open_database(f"sqlite:///{tmp_path / 'a.db'}", create=True).close()
    disk = tmp_path / "disk"
    disk.mkdir()
    words = ("unshare", "--mount", "sh", "-c", FILLED, "sh", str(disk), str(tmp_path / "a.db"))
    return partial(autoinfer.under(*words), AUTOINFER_DATA_DIR=str(disk))


FILLED = """mount -t tmpfs -o size=4m tmpfs "$1" || exit 77; cp "$2" "$1/autoinfer.db"
cat /dev/zero > "$1/fill" 2> /dev/null; shift 2; exec "$@" """


def test_a_dashboard_on_a_full_disk_shows_what_is_stored_and_says_that_it_writes_nothing(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here to mount a small disk with")
    open_database(f"sqlite:///{tmp_path / 'a.db'}", create=True).close()
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ["unshare", "--mount", "sh", "-c", FILLED, "sh", str(disk), str(tmp_path / "a.db")]
    process = subprocess.Popen(
        [*mounted, *command_words(), "dashboard", "--port", "0", "--json"],
        env=autoinfer.environment(AUTOINFER_DATA_DIR=str(disk)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        if not (line := process.stdout.readline()) and (
            process.wait() == 77 or "unshare" in process.stderr.read()
        ):
            pytest.skip("no right to mount a small disk")
        try:
            with urlopen(json.loads(line)["address"]) as page:
                assert page.status == 200
        finally:
            process.terminate()
        told = process.stderr.read()
    assert "No space is left on the disk of" in told
    assert "The dashboard shows what is stored, and refuses what would be written until there is room" in told

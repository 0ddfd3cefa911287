"""Runs of the proof of transfer that are kept: what ended is not run again, and nothing else is reused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proofs.transfer import main
from tests.proofs.transfer_page import Ran
from tests.proofs.transfer_runs import MADE_BY, ROOT, KeptRuns, Run

KEY = ("a → b", "true", 3)
RUN: Run = ("model", Ran(3, 30.5, True, 1.25, (0.8, 1.0)), Ran(21, 99.0, False, 0.0, ()))


def test_what_was_kept_is_read_back_as_it_was_and_counted(tmp_path: Path) -> None:
    KeptRuns(tmp_path / "runs").add(KEY, RUN)
    kept = KeptRuns(tmp_path / "runs")
    assert kept.read([KEY, ("a → b", "true", 4)]) == {KEY: RUN}
    assert kept.reused == 1
    assert kept.read([("a → b", "huge", 3)]) == {}


def test_a_line_that_was_cut_off_is_run_anew_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    KeptRuns(path).add(KEY, RUN)
    path.write_bytes(path.read_bytes()[:-9])
    assert KeptRuns(path).read([KEY]) == {}
    KeptRuns(path).add(KEY, RUN)
    assert KeptRuns(path).read([KEY]) == {KEY: RUN}


def test_a_line_that_is_no_run_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    path.write_text('[1, 2]\n{"pair": 1}\n')
    KeptRuns(path).add(KEY, RUN)
    assert KeptRuns(path).read([KEY]) == {KEY: RUN}


def test_a_folder_and_a_file_in_none_are_refused_before_anything_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong in (tmp_path, tmp_path / "none" / "runs"):
        with pytest.raises(SystemExit) as ended:
            main(["--runs", str(wrong), "--output", str(tmp_path / "page.md")])
        assert ended.value.code == 2
        assert "name a file in a folder that is there" in capsys.readouterr().err


def test_runs_of_other_code_are_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    KeptRuns(path).add(KEY, RUN)
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "made_by": "other code"}))
    assert KeptRuns(path).read([KEY]) == {}


def test_nothing_is_kept_where_no_file_is_named(tmp_path: Path) -> None:
    kept = KeptRuns(None)
    kept.add(KEY, RUN)
    assert kept.read([KEY]) == {}
    assert list(tmp_path.iterdir()) == []


def test_all_that_a_run_imports_of_ours_is_part_of_what_it_was_made_by() -> None:
    """But for what writes pages, and what keeps runs."""
    told = (
        "import sys, tests.proofs.transfer\nprint(*(getattr(m, '__file__', 0) for m in sys.modules.values()))"
    )
    ended = subprocess.run([sys.executable, "-c", told], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {Path(each) for each in ended.stdout.split() if each.startswith(f"{ROOT}/")}
    loaded = {each for each in loaded if ".venv" not in each.parts}
    covered = {path for pattern in MADE_BY for path in ROOT.glob(pattern)}
    assert len(loaded & covered) > 50
    rest = {each.relative_to(ROOT).as_posix() for each in loaded - covered}
    names = r"\w*page|\w*words|markdown|transfer_(asked|followed|known|runs)|__init__"
    others = re.compile(rf"tests/proofs/({names})\.py")
    assert {each for each in rest if not others.fullmatch(each)} == set()

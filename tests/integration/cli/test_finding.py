"""`autoinfer finding`: what a user sees, and how what can't be meant is refused."""

import json
from pathlib import Path

import pytest

from tests.integration.cli.command import Autoinfer
from tests.new_database import new_database


def test_what_is_written_down_is_listed_as_ones_own_found_by_its_knob_and_taken_back(
    with_history: Autoinfer,
) -> None:
    told = with_history(
        "finding add 'Two threads are plenty' --set serving.threads=2 --target 'gpu:NVIDIA L4'"
    )
    assert told.code == 0, told.err
    assert told.out.startswith("F-004 is written down as yours, for reference · gpu:NVIDIA L4 · reference.")
    assert "Of serving.threads=2 it says that it helps." in told.out
    listed = with_history("findings --about serving.threads --on l4")
    assert "F-004" in listed.out
    where = "for reference · gpu:NVIDIA L4; serving.threads=2: it helps."
    assert f"Written down by you, {where}" in " ".join(listed.out.split())
    assert "F-001" not in listed.out  # of another target
    assert "F-001" in with_history("findings --on 'Example CPU (2 cores)'").out
    sheet = with_history("show F-1").out
    assert "target        Example CPU (2 cores)\ntarget's key  cpu:Example CPU:2 cores\n" in sheet
    assert with_history("finding withdraw F-4 --why 'it was three'").code == 0
    shown = with_history("show F-4 --json").json()
    assert (shown["status"], shown["status_reason"]) == ("withdrawn", "Withdrawn by the user: it was three.")


def test_findings_that_disagree_are_marked_wherever_one_is_told(with_history: Autoinfer) -> None:
    def told(line: str) -> str:
        return " ".join(with_history(line).out.split())

    (change,) = with_history("show F-1 --json").json()["scope"]["change"]
    against = f"--set {change['knob']}={change['after']} --says does-not-help"
    assert with_history(f"finding add 'It does nothing' {against}").code == 0
    doubt = "F-004 disputes it"
    assert f"it holds, single, but {doubt}." in told("graph why-not F-1")
    assert told("findings").count(f"But {doubt}.") == 1
    assert f"but {doubt}" in told("show F-1")
    assert f"But {doubt}." in told(f"graph known {change['knob']}")
    assert f"But {doubt}." in told("graph if-fell F-1")
    items = {each["id"]: each["disputed_by"] for each in with_history("findings --json").json()["items"]}
    assert items == {"F-001": ["F-004"], "F-002": [], "F-003": [], "F-004": ["F-001"]}
    assert f"holds, but {doubt}" in told("report --format md")
    everything = with_history("findings").out.splitlines()
    marked = [line.split()[0] for line in everything if line.startswith("F-") and line.endswith("  disputed")]
    assert sorted(marked) == ["F-001", "F-004"]
    disputed = with_history("findings --disputed --limit 1 --json").json()
    assert (disputed["total"], [each["id"] for each in disputed["items"]]) == (2, ["F-004"])
    assert with_history("finding withdraw F-4").code == 0
    assert told("findings --disputed") == "No finding is like that."


def test_the_sheet_of_what_was_written_down_says_what_it_says_of_which_change_and_who_wrote_it(
    with_history: Autoinfer,
) -> None:
    line = "finding add 'Two threads are plenty' --set serving.threads=2 --says does-not-help"
    assert with_history(line).code == 0
    sheet = " ".join(with_history("show F-4").out.split())
    assert "says it does not help" in sheet
    assert "change serving.threads=2" in sheet
    assert "written by you" in sheet
    measured = " ".join(with_history("show F-1").out.split())
    assert "says it helps" in measured
    assert "written by" not in measured


def test_verdicts_that_contradict_come_in_and_the_sheet_pools_both_and_says_so(
    with_history: Autoinfer,
) -> None:
    file = with_history.data_dir / "lab.json"
    assert with_history(f"finding export --origin lab --output {file}").code == 0
    told = json.loads(file.read_text())
    told["verdicts"] = [each for each in told["verdicts"] if each["outcome"] == "supported"][:1]
    told["verdicts"][0] |= {"outcome": "refuted", "effect_log": 0.0, "low_log": -0.01, "high_log": 0.01}
    file.write_text(json.dumps(told))
    done = with_history(f"finding import {file}")
    assert done.code == 0, done.err
    assert done.out.startswith(
        "1 verdict of lab taken in.\nChanged: F-001.\nDisputed: Verdicts within F-001 disagree"
    )
    sheet = with_history("show F-001").out
    assert "contradicted" in sheet
    assert "C-1 of lab" in sheet
    assert "Between campaigns: τ" in sheet
    assert "disputed" in sheet
    assert "answered by  autoinfer reproduce E-" in sheet
    again = with_history(f"finding import {file} --json").json()
    assert (again["new"], again["known"], again["findings_changed"], again["disputes"]) == (0, 1, [], [])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("finding add ' '", "is empty"),
        ("finding add 'It is so' --says maybe", "'maybe' is nothing that a finding says"),
        ("finding add 'It is so' --set serving.none=1", "serving.none"),
        ("finding add 'It is so' --campaign C-9", "C-9 does not exist"),
        ("finding add 'It is so' --target ''", "The target is empty"),
        ("finding add 'It is so' --model ' '", "The model is empty"),
        ("finding withdraw F-001", "F-001 was measured"),
        ("finding withdraw F-099", "F-099 does not exist"),
        ("finding import nothing.json", "nothing.json can't be read"),
        ("finding import .", "can't be read"),
        ("finding import wrong.json", "wrong.json is no file of verdicts"),
        ("finding import bytes.json", "bytes.json is no text"),
    ],
)
def test_what_can_not_be_meant_is_refused_in_a_sentence(
    with_history: Autoinfer, tmp_path: Path, line: str, said: str
) -> None:
    (with_history.data_dir.parent / "wrong.json").write_text('{"format": "autoinfer-verdicts-1"}')
    (with_history.data_dir.parent / "bytes.json").write_bytes(b"\xff\xfe\x00")
    done = with_history(line)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


def test_without_a_campaign_where_it_holds_must_be_said(autoinfer: Autoinfer) -> None:
    new_database(autoinfer.data_dir).close()
    done = autoinfer("finding add 'It is so'")
    assert (done.code, "Give --model and --target with it." in done.err) == (2, True)


def test_a_first_campaign_can_begin_with_what_another_database_knows(
    with_history: Autoinfer, tmp_path: Path
) -> None:
    file, fresh = tmp_path / "lab.json", Autoinfer(tmp_path / "fresh")
    assert with_history(f"finding export --origin lab --output {file}").code == 0
    known = with_history("findings --json").json()["total"]
    done = fresh(f"finding import {file}")
    assert done.code == 0, done.err
    assert fresh("findings --json").json()["total"] == known > 0


def test_a_file_that_is_refused_makes_no_database(autoinfer: Autoinfer, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    assert autoinfer(f"finding import {wrong}").code == 2
    assert not (autoinfer.data_dir / "autoinfer.db").exists()

"""`autoinfer answers` over a real database, and what a campaign that asks can get wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from configs.catalog import Kind, read_document
from tests.integration.cli.command import Autoinfer
from tests.integration.cli.test_bad_input import told


def test_the_page_is_printed_or_written_and_always_the_same(asking: Autoinfer, tmp_path: Path) -> None:
    printed = asking("answers")
    assert (printed.code, printed.err) == (0, "")
    assert printed.out.startswith("# What C-1 (default) answered\n")
    page = tmp_path / "results" / "page.md"
    written = asking(f"answers C-1 --out {page}")
    assert (written.code, written.err) == (0, "")
    assert page.read_text() == printed.out
    assert "4 contrasts of C-1 written to" in written.out


@pytest.mark.parametrize("line", ["answers C-1", "answers --campaign C-1", "answers C-1 --campaign C-1"])
def test_a_campaign_is_named_as_an_argument_or_as_an_option(asking: Autoinfer, line: str) -> None:
    named = asking(line)
    assert (named.code, named.err) == (0, "")
    assert named.out == asking("answers").out


def test_with_json_it_is_one_document(asking: Autoinfer) -> None:
    document = asking("answers --json").json()
    assert {"campaign", "scope", "answers", "stopped_because"} <= set(document)
    contrast = document["answers"][0]["contrasts"][0]
    assert {"id", "metric", "outcome", "effect", "low", "high", "control", "candidate"} <= set(contrast)


def test_the_page_can_be_written_while_json_is_printed(asking: Autoinfer, tmp_path: Path) -> None:
    done = asking(f"answers --json --out {tmp_path / 'page.md'}")
    assert json.loads(done.out)["campaign"] == "C-1"
    assert (tmp_path / "page.md").exists()


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("answers C-9", 2, ["C-9 does not exist; the last is C-1."]),
        ("answers --campaign C-9", 2, ["C-9 does not exist; the last is C-1."]),
        (
            "answers C-1 --campaign C-2",
            2,
            ["Two campaigns are named: C-1 and --campaign C-2.", "one of them"],
        ),
        ("story --campaign C-9", 2, ["C-9 does not exist; the last is C-1."]),
        ("report --campaign C-9", 2, ["C-9 does not exist; the last is C-1."]),
        ("verify --campaign C-9", 2, ["C-9 does not exist; the last is C-1."]),
        ("export --recipe --campaign C-9", 2, ["C-9 does not exist; the last is C-1."]),
        ("answers H-1", 2, ["'H-1' names a hypothesis"]),
        ("answers --out /proc/nothing/page.md", 2, ["/proc/nothing"]),
        ("answers --out .", 2, ["can't be written"]),
    ],
)
def test_what_cannot_be_answered_is_told(asking: Autoinfer, line: str, code: int, words: list[str]) -> None:
    told(asking(line), code, *words)


def test_a_campaign_that_asks_nothing_has_no_answers(with_history: Autoinfer) -> None:
    told(with_history("answers"), 2, "C-1 asks no questions.", "autoinfer run levers")


def campaign_file(folder: Path, **changes: Any) -> Path:
    data = read_document(Kind.CAMPAIGNS, "default").data
    assert isinstance(data, dict)
    good = {
        "id": "threads",
        "asks": "Are two better than one?",
        "claim": "Two threads are faster.",
        "candidate": {"serving.threads": 2},
        "metric": "tpot_ms",
        "min_effect": "3%",
        "why": "Nobody knows.",
    }
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({**data, "name": "mine", "questions": [{**good, **changes}]}))
    return path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"metric": "speed"}, ["mine.yaml: questions.0.metric is 'speed'"]),
        (
            {"candidate": {"serving.thread": 2}},
            ["mine.yaml: questions.0.candidate of the question threads", "There is no knob 'serving.thread'"],
        ),
        (
            {"control": {"serving.threads": "3"}},
            ["mine.yaml: questions.0.control of the question threads", 'serving.threads cannot be "3"'],
        ),
        (
            {"candidate": {"pruning.layers_removed": 2}},
            ["questions.0.candidate", "only means something when pruning.method is depth"],
        ),
    ],
)
def test_a_wrong_question_is_refused_before_anything_runs(
    autoinfer: Autoinfer, tmp_path: Path, changes: dict[str, Any], words: list[str]
) -> None:
    told(autoinfer(f"run {campaign_file(tmp_path, **changes)} --no-worker"), 2, *words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("run levres", ["There is no campaign 'levres'.", "levers"]),
        ("run levers --campaign default", ["named twice", "levers", "default"]),
    ],
)
def test_a_campaign_is_named_once_and_exists(autoinfer: Autoinfer, line: str, words: list[str]) -> None:
    told(autoinfer(line), 2, *words)

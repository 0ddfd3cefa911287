"""`autoinfer report` as a process: to the terminal, to a file, and what is refused."""

import json
from pathlib import Path

import pytest

from knowledge.report.view import ReportView
from tests.integration.cli.command import Autoinfer


def test_a_report_goes_to_the_terminal_or_to_a_file_in_the_form_of_its_name(with_history: Autoinfer) -> None:
    folder = with_history.data_dir.parent
    printed = with_history("report c-1 --format md")
    assert printed.code == 0, printed.err
    assert printed.out.startswith("# How much faster does the packaged reference model answer on ")
    for name, begins in (
        ("a.html", "<!doctype html>"),
        ("a.md", "# How"),
        ("a.json", "{"),
        ("a", "<!doctype"),
    ):
        done = with_history(f"report --to {name}")
        assert done.code == 0, done.err
        assert "Wrote " in done.out
        assert (folder / name).read_text(encoding="utf-8").startswith(begins)
    told = with_history("report --to b.html --json").json()
    assert (told["output"], told["format"]) == ("b.html", "html")
    assert told["bytes"] == (folder / "b.html").stat().st_size


def test_the_json_form_is_the_schema_s(with_history: Autoinfer) -> None:
    found = ReportView.model_validate(with_history("report --json").json())
    assert found.campaign.id == "C-1"
    schema = with_history("report --schema").json()
    assert schema == json.loads(json.dumps(ReportView.model_json_schema(mode="serialization")))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("report C-9", "C-9 does not exist; the last is C-1."),
        ("report H-1", "H-1"),
        ("report nonsense", "'nonsense' is not a label."),
        ("report --format pdf", "'pdf' is not one of"),
        ("report --json --format md", "ask for two forms"),
        ("report --to nowhere/at/all.html", "can't be written"),
        ("report --to .", "can't be written"),
        ("report --to paper.docx", "A report is not written as .docx"),
        ("report --to paper.pdf", "or say which of them it holds with --format"),
        ("export C-1", "Nothing was said to be exported."),
        ("export C-1 --recipe", "C-1 has no baseline, so nothing says what its best gains."),
        ("check nowhere", "nowhere can't be read"),
        ("check nowhere --within soon", "'soon' is not a duration."),
        ("check nowhere --within 0s", "'0s' is not a duration."),
        ("build nowhere", "nowhere can't be read"),
    ],
)
def test_what_can_t_be_done_is_said_in_a_sentence(with_history: Autoinfer, line: str, said: str) -> None:
    done = with_history(line)
    assert done.code == 2, done.out
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_file_that_is_no_recipe_is_refused_by_its_place(with_history: Autoinfer) -> None:
    folder: Path = with_history.data_dir.parent
    (folder / "recipe.json").write_text('{"format": "autoinfer-recipe-9"}')
    for command in ("check", "build"):
        done = with_history(f"{command} recipe.json")
        assert done.code == 2
        assert "recipe.json is no recipe: format:" in done.err
    (folder / "binary").write_bytes(b"\xff\xfe\x00")
    assert "is no text" in with_history("check binary").err

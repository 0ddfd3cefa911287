import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from cli.console import output
from cli.console.failures import Told, tell
from cli.console.words import change_words, configuration_words, effect_words, rank_words
from configs.errors import UsageError
from knowledge.queries.view import ChangeView, EffectView


def printed(capsys: pytest.CaptureFixture[str], width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    rows = [("E-0001", output.state("inconclusive"), "a claim that goes on for quite some words")]
    output.console().print(output.table(("id", "state", "claim"), rows, wide=("claim",)))
    return capsys.readouterr().out


def test_a_wide_terminal_gets_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(capsys, 80, monkeypatch).splitlines()
    assert lines[0].split() == ["id", "state", "claim"]
    assert lines[1].startswith("E-0001  inconclusive  a claim")


def test_a_narrow_one_gets_a_list_of_fields(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(capsys, 32, monkeypatch).splitlines()
    assert lines[0].split() == ["id", "E-0001"]
    assert lines[1].split() == ["state", "inconclusive"]


HARM = "a\x1b[31mred\u202eesrever\x9b2J\rover\x07"
WRITTEN_OUT = "a\\x1b[31mred\\u202eesrever\\x9b2J\\rover\\x07"


@pytest.mark.parametrize("terminal", [False, True])
def test_what_would_steer_a_terminal_is_written_out_wherever_it_stands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    output.say(HARM)
    output.console().print(output.fields([("claim", HARM)]))
    output.console().print(output.table(("id", "claim"), [("E-0001", HARM)], wide=("claim",)))
    said = capsys.readouterr().out
    assert said.count(WRITTEN_OUT) == 3
    output.console().print(Text(HARM))
    said += capsys.readouterr().out
    assert not set(re.sub("\x1b\\[[0-9;]*m", "", said)) & set("\x1b\u202e\x9b\r\x07")
    assert "\x1b[31m" not in said


def test_a_failure_that_quotes_others_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    tell(UsageError(f"It says {HARM}.", HARM), Told(as_json=False, debug=False, program="autoinfer"))
    assert capsys.readouterr().err == f"autoinfer: It says {WRITTEN_OUT}.\n  {WRITTEN_OUT}\n"


def test_no_line_ends_with_spaces(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for width in (32, 80):
        assert not any(line.endswith(" ") for line in printed(capsys, width, monkeypatch).splitlines())


@given(
    st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.floats(allow_nan=False), max_size=4)
)
def test_json_comes_back_as_it_was(document: dict[str, object]) -> None:
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as out:
        output.print_json(document)
    assert json.loads(out.getvalue()) == document


def test_effects_changes_and_ranks_read_as_one_would_say_them() -> None:
    assert effect_words(EffectView(relative=-0.123, low=-0.141, high=-0.105)) == "−12.3 % [−14.1, −10.5]"
    assert effect_words(None) == "—"
    assert change_words([ChangeView(knob="a.b", before=None, after=True)]) == "a.b — → on"
    assert configuration_words({"b": 0.5, "a": "x"}) == "a=x, b=0.5"
    assert [
        rank_words(2, 5, True),
        rank_words(2, None, True),
        rank_words(2, 2, True),
        rank_words(2, None, False),
    ] == [
        "2 (was 5)",
        "2 (new)",
        "2",
        "2",
    ]


@pytest.mark.parametrize(
    ("shown", "total", "offset", "text"),
    [
        (5, 5, 0, None),
        (2, 5, 0, "1 to 2 of 5 rows; more with --offset 2"),
        (2, 5, 3, "4 to 5 of 5 rows"),
        (0, 5, 9, "none from 10 on; there are 5 rows"),
    ],
)
def test_a_list_says_when_there_is_more(shown: int, total: int, offset: int, text: str | None) -> None:
    assert output.pager_line(shown, total, offset, "rows") == text

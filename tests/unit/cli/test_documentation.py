"""`docs/commands.md` shows every command with an example and all its options, and no other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from cli.main import COMMANDS, app
from tests.unit.cli.test_commands import LEAVES

PAGE = (Path(__file__).parents[3] / "docs" / "commands.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## autoinfer ([^\n]+)\n(.*?)(?=^## |^# |\Z)", PAGE, re.DOTALL | re.MULTILINE))
_OPTION = re.compile(r"`(-{1,2}[a-z-]+)[ `]")


def documented_options(section: str) -> set[str]:
    rows = [line for line in section.splitlines() if line.startswith("| `-")]
    return {option for row in rows for option in _OPTION.findall(row.split(" | ")[0] + " ")}


def options_of(command: object) -> set[str]:
    found = set()
    for parameter in getattr(command, "params", []):
        if parameter.name != "help":
            found |= {each for each in (*parameter.opts, *parameter.secondary_opts) if each.startswith("-")}
    return found


def test_the_page_has_a_section_for_every_command_and_no_other() -> None:
    assert set(SECTIONS) == set(LEAVES)


@pytest.mark.parametrize("words", LEAVES)
def test_a_section_names_all_options_and_no_other(words: str) -> None:
    assert documented_options(SECTIONS[words]) == options_of(LEAVES[words])


@pytest.mark.parametrize("words", LEAVES)
def test_a_section_has_an_example_of_its_command(words: str) -> None:
    examples = re.findall(r"```console\n(.*?)```", SECTIONS[words], re.DOTALL)
    assert examples
    for line in "".join(examples).splitlines():
        assert shlex.split(line)[: 1 + len(words.split())] == ["autoinfer", *words.split()]


def test_the_global_options_are_documented() -> None:
    section = PAGE.split("## Global options", 1)[1].split("\n# ", 1)[0]
    assert documented_options(section) >= options_of(get_command(app))
    assert len(COMMANDS) == len({words.split()[0] for words in SECTIONS})

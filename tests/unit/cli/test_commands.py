"""The table of commands says what the commands say, and costs nothing to read."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from cli.console.lazy import Entry, load
from cli.console.options import FLAG_GLOBALS, VALUED_GLOBALS
from cli.main import COMMANDS

HEAVY = (
    "torch",
    "transformers",
    "optuna",
    "scipy",
    "numpy",
    "networkx",
    "sqlalchemy",
    "alembic",
    "pydantic_settings",
)


def leaves() -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its words."""
    for entry in COMMANDS:
        command = load(entry)
        inner = getattr(command, "commands", None)
        if inner:
            yield from ((f"{entry.name} {name}", each) for name, each in inner.items())
        else:
            yield entry.name, command


LEAVES = dict(leaves())


def test_the_help_of_all_commands_loads_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from cli.main import call\n"
        "call(['--help'])\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
        "print(*[name for name in sys.modules if name.startswith('cli.')], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    heavy, ours = done.stderr.splitlines()
    assert heavy == ""
    assert set(ours.split()) == {
        "cli.console",
        "cli.main",
        "cli.console.failures",
        "cli.console.lazy",
        "cli.console.options",
    }


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_importing_a_command_loads_nothing_heavy(entry: Entry) -> None:
    module = entry.place.partition(":")[0]
    program = f"import sys, {module}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("words", LEAVES)
def test_every_command_prints_json_when_asked(words: str) -> None:
    assert any("--json" in parameter.opts for parameter in LEAVES[words].params)


@pytest.mark.parametrize("words", LEAVES)
def test_no_option_of_a_command_hides_a_global_one(words: str) -> None:
    taken = {option for parameter in LEAVES[words].params for option in parameter.opts}
    assert not taken & {*VALUED_GLOBALS, *FLAG_GLOBALS}


@pytest.mark.parametrize("words", LEAVES)
def test_every_command_and_option_says_what_it_is_for(words: str) -> None:
    assert LEAVES[words].help
    assert all(parameter.help for parameter in LEAVES[words].params)


def test_names_are_unique() -> None:
    assert len({entry.name for entry in COMMANDS}) == len(COMMANDS)

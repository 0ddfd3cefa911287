"""A command group that imports a command's module only when that command is asked for.

`autoinfer --help` must answer at once, and a command must not pay for its neighbours: the table of commands
holds names, places and one line each, and nothing of `cli/` below it is imported before the name is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from cli.console.options import VALUED_GLOBALS


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: its `name`, `place` as `module:attribute` (a function or a `typer.Typer`), one line of
    help.

    `panel` is the heading it stands under in the help of its group.
    """

    name: str
    place: str
    help: str
    panel: str


class LazyGroup(TyperGroup):
    """A group over a table of entries; subclasses set `entries`, as `typer.Typer(cls=…)` takes a class."""

    entries: Sequence[Entry] = ()

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # `suggest_commands` looks for near misses among the keys.
        self._entries = {entry.name: entry for entry in self.entries}

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, in the order of the table."""
        return list(self._entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name, importing its module now; `None` when there is none."""
        if cmd_name in self._entries and cmd_name not in self.commands:
            self.commands[cmd_name] = load(self._entries[cmd_name])
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that `args` begin with; an unknown name is refused with the nearest ones."""
        if args and args[0] not in self._entries and not args[0].startswith("-"):
            raise UnknownCommand(args[0], list(self._entries), self._within_groups(ctx, args[0]))
        return super().resolve_command(ctx, args)

    def _within_groups(self, ctx: Any, name: str) -> list[str]:
        """The commands of this name that stand in a group of this one, such as `finding import`."""
        groups = ((each, self.get_command(ctx, each)) for each in self._entries)
        return [
            f"{at} {name}"
            for at, group in groups
            if isinstance(group, TyperGroup) and name in group.list_commands(ctx)
        ]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names under their panels, without importing any of them."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for entry in self.entries:
            panels.setdefault(entry.panel, []).append((entry.name, entry.help))
        width = max(len(entry.name) for entry in self.entries)
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl([(name.ljust(width), line) for name, line in rows])


class UnknownCommand(typer.BadParameter):
    """There is no command of this name; names those of the same name `elsewhere`, or else the nearest."""

    def __init__(self, name: str, known: Sequence[str], elsewhere: Sequence[str] = ()) -> None:
        from difflib import get_close_matches

        near = list(elsewhere) or get_close_matches(name, known)
        super().__init__(
            f"there is no command {name!r}" + (f"; did you mean {' or '.join(near)}?" if near else ".")
        )

    def format_message(self) -> str:
        """The sentence, without the words that Typer puts before a bad value."""
        return str(self.message)


def command_path(group: Any, program: str, arguments: Sequence[str]) -> str:
    """Return the words that name the command which a command line asks for, such as `autoinfer note`.

    `arguments` are the words after `program`, the global options in front.
    """
    path, found, left = [program], group, list(arguments)
    context = typer.Context(group, info_name=program)
    while left and left[0].startswith("-"):
        left = left[2:] if left[0] in VALUED_GLOBALS else left[1:]
    for word in left:
        if not isinstance(found, TyperGroup) or word not in found.list_commands(context):
            break
        found = found.get_command(context, word)
        path.append(word)
    return " ".join(path)


def load(entry: Entry) -> Any:
    """Import the module of `entry` and return its command, named as in the table."""
    module, _, attribute = entry.place.partition(":")
    target = getattr(import_module(module), attribute)
    if not isinstance(target, typer.Typer):
        app = typer.Typer(rich_markup_mode=None, add_completion=False)
        app.command(name=entry.name)(target)
        target = app
    command = get_command(target)
    command.name = entry.name
    return command

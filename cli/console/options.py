"""Options that several commands share, and the global ones, which may stand before or after a command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

LARGEST_NUMBER = 2**63 - 1
"""The largest id, count or seed that is taken: what the databases hold in an integer."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
CampaignLabel = Annotated[
    str | None,
    typer.Option("--campaign", metavar="C-ID", help="Which campaign; the newest one if not given."),
]
CampaignToo = Annotated[str | None, typer.Option("--campaign", metavar="C-ID", help="The same as an option.")]
"""Of a command that takes the campaign as its argument, for whoever names it as its neighbours take it."""
CampaignFilter = Annotated[
    str | None,
    typer.Option("--campaign", metavar="C-ID", help="Only this campaign; all of them if not given."),
]
Baseline = Annotated[
    list[str] | None,
    typer.Option(
        "--baseline",
        metavar="KNOB=VALUE|default",
        help="What it begins from: the engine's default with this knob, may be given again; or the default "
        "itself, also where that does not seem to fit. Where it does not, the least change if not given.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory", metavar="SIZE", help="Memory of the target that launches may take at most, such as 8GB."
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option("--concurrency", metavar="N", help="Requests at once; the campaign's if not given."),
]
PromptTokens = Annotated[
    int | None,
    typer.Option("--prompt-tokens", metavar="N", help="Tokens of each prompt; the campaign's if not given."),
]
NewTokens = Annotated[
    int | None,
    typer.Option("--new-tokens", metavar="N", help="Tokens of each answer; the campaign's if not given."),
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=5000, help="The most rows to show.")]
Offset = Annotated[
    int, typer.Option("--offset", min=0, max=LARGEST_NUMBER, help="How many rows to pass over first.")
]

DEFAULT_LIMIT = 50
"""Rows of a list: what a screen and a half holds."""

VALUED_GLOBALS = ("--data-dir", "--db", "--config")
"""Global options that take a value."""
FLAG_GLOBALS = ("--debug",)
"""Global options that take none, and may stand anywhere."""


def named_once(argument: str | None, option: str | None) -> str | None:
    """The campaign that an argument or `--campaign` names; None where neither does.

    Raises `UsageError` where they name two.
    """
    from configs.errors import UsageError

    if argument is not None and option is not None and argument != option:
        raise UsageError(
            f"Two campaigns are named: {argument} and --campaign {option}.", "Name one of them alone."
        )
    return argument if option is None else option


@dataclass(frozen=True)
class GlobalOptions:
    """What was given on the command line for every command; `None` where nothing was."""

    data_dir: Path | None = None
    db: str | None = None
    config: Path | None = None
    debug: bool = False
    overrides: dict[str, object] = field(default_factory=dict)


def hoist_globals(arguments: Sequence[str]) -> list[str]:
    """Return `arguments` with the global options moved to the front, as if they had been given there.

    `autoinfer queue --db URL` then means what `autoinfer --db URL queue` means. What follows `--` stays.
    """
    front: list[str] = []
    rest: list[str] = []
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if argument == "--":
            rest.extend(arguments[position:])
            break
        if argument in VALUED_GLOBALS:
            front.extend(arguments[position : position + 2])
            position += 2
            continue
        if argument in FLAG_GLOBALS or argument.partition("=")[0] in VALUED_GLOBALS:
            front.append(argument)
        else:
            rest.append(argument)
        position += 1
    return front + rest


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether `--json` is among the options, so that errors are told as JSON too."""
    before_dashes = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in before_dashes

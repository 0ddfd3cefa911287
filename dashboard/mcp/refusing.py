"""How a refusal is told to a client: what happened and what to do, in the words of its tools, with what
others wrote marked as data."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import ValidationError

from configs.errors import AutoinferError
from configs.validation import nearest
from dashboard.mcp.quoting import LONG, named, plain, quoted
from knowledge.figures import listed

_log = logging.getLogger(__name__)

_OPTION = re.compile(r"--([a-z][a-z-]*)")
_ONE_OF_SEVERAL = {"set": "assignment"}
"""Options that may be given again, by what a client calls one of them."""

_LABELLED = {"C": "campaigns", "H": "why", "E": "experiment", "F": "finding"}
_COMMANDS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"autoinfer campaign list\b"), "the tool campaigns"),
    (re.compile(r"autoinfer (hypotheses|experiments|findings|queue)\b"), r"the tool \1"),
    (re.compile(r"autoinfer (focus|boost|ban|cap|reserve) (\S+) --clear"), r"the tool lift (\1 of \2)"),
    (re.compile(r"autoinfer (?:note|finding add) (?=\")"), ""),
)
"""Commands that are tools as well."""

_SHOW = re.compile(rf"autoinfer show ([{''.join(_LABELLED)}])(-[0-9]+)")


def refusal_words(name: str, error: ToolError, takes: Collection[str]) -> str:
    """What went wrong and what to do, in a sentence or two, of a tool that takes these arguments.

    What is not seen is left out. A fault of our own is logged, and told without its text.
    """
    cause = error.__cause__
    if isinstance(cause, AutoinferError):
        message, hint = cause.marked(_marked_name, _marked_text)
        return plain(f"{message} {_in_terms_of_tools(hint, takes)}")
    if isinstance(cause, ValidationError):
        return plain(_not_taken(name, cause))
    if cause is None:
        return plain(str(error))
    _log.error("The tool %s failed.", name, exc_info=cause)
    return (
        f"{name} failed by a fault of autoinfer's own ({type(cause).__name__}). What happened stands on the "
        "server's standard error."
    )


def no_such_tool(name: str, tools: Collection[str]) -> str:
    """What is said of a tool that there is not."""
    return plain(f"There is no tool {name[:40]!r}. {nearest(name, sorted(tools), otherwise='The tools are')}")


def no_such_argument(name: str, argument: str, properties: Mapping[str, Any]) -> str:
    """What is said of an argument that a tool does not take."""
    known = ", ".join(properties) or "no argument"
    return f"{name} takes no {plain(argument)[:40]!r}. It takes: {known}."


def _not_taken(name: str, cause: ValidationError) -> str:
    """Which argument is not as it should be, and how it should be; of those that are missing, all."""
    found = cause.errors()
    missing = [".".join(map(str, each["loc"])) for each in found if each["type"] == "missing"]
    if missing:
        return f"{name} needs {listed(missing)}. Give {'it' if len(missing) == 1 else 'them'}."
    first = found[0]
    where = ".".join(map(str, first["loc"]))
    more = f" ({len(found) - 1} more)" if len(found) > 1 else ""
    return f"{name} can't take its {where or 'arguments'}: {first['msg']}{more}."


def _in_terms_of_tools(hint: str, takes: Collection[str]) -> str:
    """What to do, as a client does it: options of a command are its tool's arguments, and commands that are
    tools as well are named as such. What only the user can run stays a command."""

    def argument(found: re.Match[str]) -> str:
        name = found[1].replace("-", "_")
        if one := _ONE_OF_SEVERAL.get(name):
            return one if f"{one}s" in takes else found[0]
        return name if name in takes else found[0]

    for pattern, tool in _COMMANDS:
        hint = pattern.sub(tool, hint)
    hint = _SHOW.sub(lambda found: f"the tool {_LABELLED[found[1]]} ({found[1]}{found[2]})", hint)
    return _OPTION.sub(argument, hint)


def _marked_name(name: str) -> str:
    """A name within a sentence: where it is no single word it is marked, as the JSON of answers marks it."""
    found = named(name)
    return found if isinstance(found, str) else found.model_dump_json()


def _marked_text(text: str) -> str:
    """Others' text within a sentence, marked in the same way."""
    return quoted(text, LONG).model_dump_json()

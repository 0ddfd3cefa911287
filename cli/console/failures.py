"""How a failure is told: one sentence and a hint on standard error, or the same as JSON, and an exit code."""

from __future__ import annotations

import errno
import json
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

import typer

from configs.errors import EXIT_FAILURE, EXIT_USAGE, AutoinferError

INTERRUPTED = 130
"""Exit code after Ctrl C: 128 + SIGINT, as shells have it."""


MOST_SAID = 300
"""Characters of an unexpected error's own text that are told; `--debug` shows the rest."""


@dataclass(frozen=True, slots=True)
class Told:
    """How to tell it: as JSON or as text, with the traceback or without."""

    as_json: bool
    debug: bool
    program: str
    arguments: tuple[str, ...] = ()
    """The words of the command line, from which a refused value is told again."""
    asked: str = ""
    """The words that name the command, for an error that does not say whose it is."""


def tell(error: Exception, told: Told) -> int:
    """Print what happened and what to do, and return the exit code: 2 for usage, 1 for failure."""
    message, hint, code = in_words(error, told.program, told.arguments, told.asked)
    if told.debug:
        traceback.print_exception(error, file=sys.stderr)
    if told.as_json:
        document = {"error": message, "hint": hint, "exit_code": code}
        print(json.dumps(document, ensure_ascii=False), file=sys.stderr)
    else:
        from cli.console.written_out import written_out  # a message may quote what others wrote

        print(f"{told.program}: {written_out(message)}", file=sys.stderr)
        if hint:
            print(f"  {written_out(hint)}", file=sys.stderr)
    return code


def in_words(
    error: Exception, program: str, arguments: Sequence[str] = (), asked: str = ""
) -> tuple[str, str, int]:
    """Return the sentence, the hint and the exit code for `error`, which the command `asked` met."""
    if isinstance(error, AutoinferError):
        return error.message, error.hint, error.exit_code
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else asked or program
        given = _given_value(getattr(error, "param", None), arguments)
        message = error.format_message().replace("Value error, ", "")
        if given is not None and given not in message:
            message = f"{message.rstrip('.')}, not {given!r}."
        return _sentence(message), f"See: {path} --help", EXIT_USAGE
    if isinstance(error, typer.Abort):
        return "Nothing was done.", "", EXIT_FAILURE
    if isinstance(error, OSError) and error.strerror:
        return _of_operating_system(error)
    from experiments.disk import is_full

    if is_full(error):
        return "No space is left on the disk.", "Free some space and try again.", EXIT_FAILURE
    said = (str(error).strip().splitlines() or [""])[0][:MOST_SAID]
    return (
        f"autoinfer failed by a fault of its own: {type(error).__name__}: {said}".rstrip(": "),
        "Run it again with --debug to see where, and report it.",
        EXIT_FAILURE,
    )


def _given_value(parameter: object, arguments: Sequence[str]) -> str | None:
    """Return what the command line gives for an option; Typer's messages leave it out."""
    for option in getattr(parameter, "opts", ()):
        for place, argument in enumerate(arguments):
            name, equals, value = argument.partition("=")
            if name == option and equals:
                return value
            if name == option and place + 1 < len(arguments):
                return arguments[place + 1]
    return None


def _of_operating_system(error: OSError) -> tuple[str, str, int]:
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"No space is left on the disk{where}.", "Free some space and try again.", EXIT_FAILURE
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"You may not read or write there{where}.",
            "Name another place, or ask its owner.",
            EXIT_FAILURE,
        )
    if error.errno == errno.EISDIR:
        return f"A file is wanted, and this is a folder{where}.", "Name a file in it.", EXIT_FAILURE
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return f"{error.strerror}{where}.", "Check the path; its folder must be there.", EXIT_FAILURE
    return f"{error.strerror}{where}.", "", EXIT_FAILURE


def _sentence(text: str) -> str:
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else text + "."

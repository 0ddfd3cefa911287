"""The command of `--beside`, which runs beside half of the pairs of an A/A series."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path


def command_beside(text: str | None) -> tuple[str, ...]:
    """The words of the command that runs beside; raises `UsageError` for one that can't be started here."""
    from configs.errors import UsageError

    if text is None:
        return ()
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--beside {text!r} is no command: {error}.", "Close the quotes.") from None
    if not words:
        raise UsageError("--beside names no command.", 'Give one, such as --beside "autoinfer dashboard".')
    found = shutil.which(words[0])
    if found is None:
        raise UsageError(
            f"There is no command {words[0]!r} to run beside.", "Name one that runs in a terminal here."
        )
    return (str(Path(found).absolute()), *words[1:])

"""Writing what a command made into the file that it was told.

A place that can't be written is a wrong word of the command, so it ends with exit code 2, whichever option
names it.
"""

from __future__ import annotations

import errno
from pathlib import Path

from configs.errors import UsageError

NAME_ANOTHER = "Name a file in a folder that is there."


def write_output(path: Path, text: str, *, makes_folder: bool = False) -> None:
    """Write a text into a file, and make its folder where that is asked for; raises `UsageError` where it
    can't be done."""
    try:
        if makes_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # no word of the command would make room
        raise UsageError(f"{path} can't be written: {error.strerror or error}.", NAME_ANOTHER) from None

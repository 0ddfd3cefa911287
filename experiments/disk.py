"""What the operating system says of a disk that can't be written, put into words for the user."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from configs.errors import DiskFull, PermissionRefused, UsageError


@contextmanager
def disk_in_words(root: Path, what: str) -> Iterator[None]:
    """Turn a full disk or a refused permission below `root` into `DiskFull` or `PermissionRefused`.

    `what` is kept there, in the plural, such as "artifacts". Other errors go on as they are.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or root
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                f"No space is left for {what} in {root}.",
                "Free some with: autoinfer artifacts prune, or set AUTOINFER_DATA_DIR to another disk. "
                "What was finished before is intact.",
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise PermissionRefused(
                f"You may not write at {where}, where {what} are kept.",
                "Make it writable, or set AUTOINFER_DATA_DIR to a folder of yours.",
            ) from error
        raise


def check_writable(folder: Path, what: str) -> None:
    """Make the folder and write a file there that is gone at once; `what` as in `disk_in_words`.

    Raises `DiskFull`, `PermissionRefused`, and `UsageError` where something that is no folder is in the way.
    """
    try:
        with disk_in_words(folder, what):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"autoinfer")
    except (FileExistsError, NotADirectoryError):
        raise UsageError(
            f"{folder}, where {what} are kept, is no folder.", "Move away what is in the way."
        ) from None

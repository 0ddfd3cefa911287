"""What the operating system says of a disk that can't be written, put into words for the user."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from configs.errors import DiskFull, PermissionRefused


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

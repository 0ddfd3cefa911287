"""What the operating system says of a disk that can't be written, put into words for the user."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from configs.errors import AutoinferError, DiskFull, PermissionRefused, UsageError
from configs.quantities import format_bytes
from configs.room import has_inodes, no_room
from experiments.job.result import BROKE

MAKE_ROOM = (
    "Free some with: autoinfer artifacts prune --unused-for 1d, or set AUTOINFER_DATA_DIR to another disk."
)
"""What to do where the disk of the data folder has too little room."""

TO_FREE_SPACE = f"{MAKE_ROOM} What was finished before is intact."
"""What to do where it is full."""

DISK_FULL = "disk_full"
"""The failure of an experiment whose job a full disk ended: tried again it ends so again."""

FULL_BELOW_BYTES = 2**20
"""A disk with less free than this is full for whoever writes to it by blocks."""

_FULL = re.compile(
    r"[^\n]*(?:No space left on device|Disk quota exceeded|cannot write PCH file)[^\n]*", re.IGNORECASE
)
"""Words of a full disk; the last are those of GCC, which tells no cause where a header it compiled for torch
does not fit."""

_RAW = re.compile(
    r"(?:\b\w*Error: )?(?:I/O error: |\[Errno \d+\] )?(No space left on device|Disk quota exceeded)"
    r"(?: \(os error \d+\))?",
    re.IGNORECASE,
)
"""How the system and libraries tell of one, with the names and numbers of their errors."""

_WORDS = {
    "no space left on device": "no space is left on the disk",
    "disk quota exceeded": "your quota of the disk is used up",
}

OF_A_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
"""Errors of the operating system where no room is left, or no more of it for this user."""


def is_full(error: BaseException) -> bool:
    """Whether an error tells of a full disk: the system's own, or a library's that only has its words, such
    as that of safetensors."""
    if isinstance(error, AutoinferError):
        return isinstance(error, DiskFull)
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in OF_A_FULL_DISK
    return _FULL.search(str(error)) is not None


def told_in_words(said: str) -> str:
    """The same, with a full disk in words where `said` has the system's or a library's for it."""
    return _RAW.sub(lambda found: _WORDS[found[1].lower()], said)


def failure_kind(error: AutoinferError) -> str:
    """The failure of an experiment whose job an error ended."""
    return DISK_FULL if isinstance(error, DiskFull) else BROKE


def take_room(path: Path, size: int, what: str) -> None:
    """Let the file have `size` bytes of its disk, from its beginning on, before a memory map writes it:
    a process that finds no room then is killed by a signal (SIGBUS) and says nothing.

    Raises `OSError`, which tells how much `what` (in the plural, the subject of a clause) take and how much
    is free. Where the system can't take room beforehand (macOS), nothing is done.
    """
    if not hasattr(os, "posix_fallocate") or size == 0:
        return
    free = shutil.disk_usage(path.parent).free
    with path.open("r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in OF_A_FULL_DISK:
                raise
            why = f"{error.strerror}: {what} take {format_bytes(size)}, and {format_bytes(free)} are free"
            raise OSError(error.errno, why, str(path)) from None


def check_disk_held(process: str, said: str, *folders: Path) -> None:
    """Raise `DiskFull` where a process that failed did so for want of disk space: what it `said`, in its log
    and its answer, tells so, or nothing is free in one of the `folders` that it writes, which may lack the
    words then.

    `process` begins a clause, such as "vLLM".
    """
    told = _FULL.findall(said)
    if told:
        why = told_in_words(" ".join(told[-1].split()))
    elif full := [each for each in folders if _free_bytes(each) < FULL_BELOW_BYTES or not has_inodes(each)]:
        why = f"{full[0]}: {no_room(full[0])}"
    else:
        return
    raise DiskFull(
        f"{process} failed because a disk is full: {why.rstrip('.')}.", TO_FREE_SPACE, quotes=(why,)
    )


def _free_bytes(folder: Path) -> float:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return float("inf")


@contextmanager
def disk_in_words(root: Path, what: str) -> Iterator[None]:
    """Turn a full disk or a refused permission below `root` into `DiskFull` or `PermissionRefused`.

    `what` is kept there, in the plural, such as "artifacts". Other errors go on as they are.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, AutoinferError):
            raise
        if is_full(error):
            number = error.errno if isinstance(error, OSError) else None
            raise DiskFull(
                f"No space is left for {what} in {root}: {no_room(root, number)}.", TO_FREE_SPACE
            ) from error
        if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise PermissionRefused(
                f"You may not write at {error.filename or root}, where {what} are kept.",
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

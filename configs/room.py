"""What is left of a disk that has no room, in words."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from configs.quantities import format_bytes

FEW_INODES = 16
"""With fewer free than this a disk is short of them: what met its end has set some free by the time of a
look."""


def no_room(folder: Path, number: int | None = None) -> str:
    """Why nothing more fits on the disk of a folder, as a clause; `number` is that of the system's error.

    A quota tells nothing of what is free. A disk may hold no further file though bytes are free: each takes
    an inode.
    """
    if number == errno.EDQUOT:
        return "your quota there is used up"
    try:
        disk = os.statvfs(_existing(folder))
    except OSError:
        return "its disk is full"
    if _is_short_of_inodes(disk):
        left = f"{disk.f_favail:,} of the {disk.f_files:,} inodes of its disk"
        return f"{left} are free, of which each file takes one"
    total, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
    return f"{format_bytes(free)} of the {format_bytes(total)} of its disk are free"


def free_bytes(folder: Path) -> int:
    """Bytes that are free for this user on the disk of a folder, which need not be there yet."""
    return shutil.disk_usage(_existing(folder)).free


def disk_number(folder: Path) -> int:
    """What the system calls the disk of a folder: folders with one number share what is free."""
    return _existing(folder).stat().st_dev


def has_inodes(folder: Path) -> bool:
    """Whether a further file fits on the disk of a folder, as far as that is told."""
    try:
        disk = os.statvfs(_existing(folder))
    except OSError:
        return True
    return not _is_short_of_inodes(disk)


def _is_short_of_inodes(disk: os.statvfs_result) -> bool:
    """A file system that counts none says 0."""
    return bool(disk.f_files) and disk.f_favail < FEW_INODES


def _existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    return next((each for each in (folder, *folder.parents) if each.exists()), folder)

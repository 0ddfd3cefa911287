"""What a campaign will write to a disk, and whether it has room, before it begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.errors import DiskFull
from configs.quantities import format_bytes
from configs.room import disk_number, free_bytes
from experiments.disk import MAKE_ROOM


@dataclass(frozen=True)
class Need:
    """At most so many bytes below a folder for `what`, which is in the plural. `first`: before any test can
    begin; else later, when a test builds or scores it."""

    what: str
    bytes: int
    folder: Path
    first: bool


@dataclass(frozen=True)
class Disk:
    """A disk, by the first folder that something is needed in, with what is free there."""

    folder: Path
    free_bytes: int
    needs: tuple[Need, ...]

    @property
    def first_bytes(self) -> int:
        """Bytes that are needed before any test."""
        return sum(each.bytes for each in self.needs if each.first)

    @property
    def later_bytes(self) -> int:
        """Bytes that tests may need beyond that."""
        return sum(each.bytes for each in self.needs if not each.first)


def disks_of(needs: Iterable[Need]) -> tuple[Disk, ...]:
    """What is needed by disk, with what is free there now; what takes nothing is left out."""
    by_disk: dict[int, list[Need]] = {}
    for each in needs:
        if each.bytes > 0:
            by_disk.setdefault(disk_number(each.folder), []).append(each)
    return tuple(
        Disk(found[0].folder, free_bytes(found[0].folder), tuple(found)) for found in by_disk.values()
    )


def check_room(disks: Sequence[Disk]) -> None:
    """Raise `DiskFull` where a disk has not even room for what is needed before the first test."""
    for disk in disks:
        if disk.first_bytes > disk.free_bytes:
            raise DiskFull(
                f"The campaign needs {format_bytes(disk.first_bytes)} in {disk.folder} before its first test "
                f"({_listed(disk, first=True)}), and {format_bytes(disk.free_bytes)} of that disk are free.",
                f"{MAKE_ROOM} No campaign was begun.",
            )


def room_told(disk: Disk) -> str:
    """What is needed on a disk and what is free there, in a sentence without a full stop."""
    return f"disk of {disk.folder}: {_needed(disk)}"


def room_doubt(disk: Disk) -> str | None:
    """What to say where a disk may become full later, and what to do; None where it has room for all."""
    if disk.first_bytes + disk.later_bytes <= disk.free_bytes:
        return None
    return f"The disk of {disk.folder} may become full: {_needed(disk)}. {MAKE_ROOM}"


def _needed(disk: Disk) -> str:
    parts = []
    if disk.first_bytes:
        parts.append(f"{format_bytes(disk.first_bytes)} before the first test ({_listed(disk, first=True)})")
    if disk.later_bytes:
        more = " more" if disk.first_bytes else ""
        later = _listed(disk, first=False)
        parts.append(f"up to {format_bytes(disk.later_bytes)}{more} in tests ({later})")
    return f"{', '.join(parts)}; {format_bytes(disk.free_bytes)} are free"


def _listed(disk: Disk, *, first: bool) -> str:
    """What it is needed for, each with its own bytes where there are several."""
    found = [each for each in disk.needs if each.first is first]
    if len(found) == 1:
        return found[0].what
    return ", ".join(f"{format_bytes(each.bytes)} for {each.what}" for each in found)

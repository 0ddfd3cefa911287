"""The memory that this process may use: what the machine has, and what its control groups allow.

Inside a container, a Slurm job or a systemd slice the machine's own figure says nothing: a process that takes
more than its group allows is killed, however much the machine has left. Both versions of control groups are
read, with every group above the own one; what can't be read sets no limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class _Version:
    """How a version of control groups lays its files out: `reclaimed` is the line of `memory.stat` that tells
    how much of what is used the kernel gives back first."""

    mount: str
    controller: str
    limit: str
    used: str
    reclaimed: str


_VERSIONS = (
    _Version("sys/fs/cgroup", "", "memory.max", "memory.current", "inactive_file"),
    _Version(
        "sys/fs/cgroup/memory",
        "memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)


def usable_memory_bytes(root: Path = Path("/")) -> int:
    """Memory that there is or that a control group allows, the least, in bytes; free or not.

    `root` is where `/proc` and `/sys` lie.
    """
    return min([int(psutil.virtual_memory().total), *(limit for limit, _ in _limits(root))])


def available_memory_bytes(root: Path = Path("/")) -> int:
    """Memory that could be had now without swapping and within every control group, the least, in bytes."""
    rooms = [max(0, limit - used) for limit, used in _limits(root)]
    return min([int(psutil.virtual_memory().available), *rooms])


def _limits(root: Path) -> Iterator[tuple[int, int]]:
    """What each limited group of this process allows, and how much of that is taken and not given back, in
    bytes."""
    for version in _VERSIONS:
        for group in _groups(root, version):
            limit = _number(_text(group / version.limit))
            if limit is None:
                continue
            used = _number(_text(group / version.used)) or 0
            yield limit, max(0, used - _reclaimed(group, version))


def _groups(root: Path, version: _Version) -> Iterator[Path]:
    """The folders of the process's own group and of those above it, as far as they are seen from here."""
    mount = root / version.mount
    own = mount
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if version.controller in controllers.split(","):
            own = mount / path.strip("/")
    yield from (each for each in (own, *own.parents) if each == mount or mount in each.parents)


def _reclaimed(group: Path, version: _Version) -> int:
    for line in _text(group / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == version.reclaimed:
            return _number(value) or 0
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(text: str) -> int | None:
    """A count of bytes; None for the word `max`, which sets no limit."""
    return int(text) if text.isascii() and text.isdigit() else None

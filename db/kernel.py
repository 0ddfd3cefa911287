"""Where a process id means something: on one running kernel, in one namespace of process ids."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Another one after every boot (Linux, `random(4)`)."""

_NAMESPACE = Path("/proc/self/ns/pid")


@cache
def kernel_here() -> tuple[str, str]:
    """The boot of the running kernel and this process's namespace of ids; both empty where nothing tells, as
    on other systems than Linux."""
    try:
        return _BOOT_ID.read_text().strip(), str(_NAMESPACE.stat().st_ino)
    except OSError:
        return "", ""

"""The profile of this machine's CPU, by probing. Never fails: what cannot be learnt is None."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from configs.memory import usable_memory_bytes

_SUFFIX_BYTES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
"""Bytes of the units in which Linux states cache sizes."""


@dataclass(frozen=True)
class Cache:
    """One cache as the first core sees it; `cores_sharing` counts logical cores."""

    level: int
    kind: str
    bytes: int
    cores_sharing: int


@dataclass(frozen=True)
class CpuProfile:
    """This machine as far as we may use it.

    `cores` are the logical cores this process may run on (affinity, and the control group's quota rounded
    down); `machine_cores` all that there are; `physical_cores` without hyper-threads, None where unknown.
    `memory_bytes` is what there is or what the control group allows, the smaller. `bandwidth_bytes_per_s` is
    measured by the engine, which knows how it reads; None until then.
    """

    name: str
    architecture: str
    cores: int
    machine_cores: int
    physical_cores: int | None
    caches: tuple[Cache, ...]
    memory_bytes: int
    bandwidth_bytes_per_s: float | None = None

    @property
    def target_key(self) -> str:
        """How a target with this CPU is named where measurements are kept."""
        return f"cpu:{self.name}:{self.cores} cores"

    def with_bandwidth(self, bandwidth_bytes_per_s: float) -> CpuProfile:
        """The same profile with a measured copy bandwidth, bytes per second."""
        return replace(self, bandwidth_bytes_per_s=bandwidth_bytes_per_s)


def probe_cpu(root: Path = Path("/")) -> CpuProfile:
    """What this machine's CPU is; `root` is where `/proc` and `/sys` lie."""
    machine_cores = psutil.cpu_count() or os.cpu_count() or 1
    return CpuProfile(
        name=_name(root),
        architecture=platform.machine(),
        cores=usable_cores(root),
        machine_cores=machine_cores,
        physical_cores=psutil.cpu_count(logical=False),
        caches=_caches(root),
        memory_bytes=usable_memory_bytes(root),
    )


def usable_cores(root: Path = Path("/")) -> int:
    """Logical cores this process may use at once, at least 1."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        allowed = os.cpu_count() or 1
    quota, _, period = _text(root / "sys/fs/cgroup/cpu.max").partition(" ")
    share, of = _number(quota), _number(period)
    return max(1, min(allowed, share // of)) if share and of else allowed


def cpu_flags(root: Path = Path("/")) -> frozenset[str] | None:
    """What the first core can do, as Linux calls it (`avx2`, `amx_tile`); None where it does not tell."""
    found = re.search(r"^flags\s*:\s*(.+)$", _text(root / "proc/cpuinfo"), re.MULTILINE)
    return None if found is None else frozenset(found[1].split())


def _name(root: Path) -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", _text(root / "proc/cpuinfo"), re.MULTILINE)
    return " ".join(match[1].split()) if match else platform.processor() or "unknown CPU"


def _caches(root: Path) -> tuple[Cache, ...]:
    found = []
    for folder in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        size = re.fullmatch(r"(\d+)([KMG]?)", _text(folder / "size"))
        level = _number(_text(folder / "level"))
        if size and level:
            sharing = _listed_cores(_text(folder / "shared_cpu_list"))
            kind = _text(folder / "type").lower()
            found.append(Cache(level, kind, int(size[1]) * _SUFFIX_BYTES[size[2]], sharing))
    return tuple(found)


def _listed_cores(text: str) -> int:
    """How many cores a list such as `0-3,8` names; 1 where it cannot be read."""
    count = 0
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = _number(first), _number(last or first)
        count += 0 if low is None or high is None else high - low + 1
    return max(1, count)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None

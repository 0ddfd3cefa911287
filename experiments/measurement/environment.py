"""The machine that a measurement ran on: what stays as it is during a job, and what changes by the second.

Everything is JSON; what cannot be learnt here is None, never a guess. Nothing that tells who or where the
user is is recorded: no host name, no user name, no path.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

import experiments
from configs.cpu import cpu_flags, probe_cpu
from experiments.measurement.bandwidth import measure_copy_bandwidth
from experiments.measurement.evidence import Json
from experiments.measurement.gpu import gpu_facts, gpu_moment

PACKAGES = (
    "autoinfer",
    "numpy",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
    "triton",
    "vllm",
)
"""Packages whose versions are recorded; None for those that are not installed."""

GIT_TIMEOUT_S = 5.0
"""Asking git for a revision takes milliseconds; on a hung network drive we go on without it."""

_KHZ_PER_MHZ = 1000


def machine_facts(device: str, seed: int) -> dict[str, Json]:
    """What does not change while a job runs; takes about a second, most of it for the copy bandwidth.

    `device` as in a spec (`cpu`, `cuda:0`); `seed` is recorded with it. `copy_bandwidth_bytes_per_s` is the
    CPU's, and None where the model runs elsewhere.
    """
    cpu = probe_cpu()
    bandwidth = measure_copy_bandwidth(cpu.cores) if device == "cpu" else None
    revision, changed = git_revision(Path(experiments.__file__).parent.parent)
    return {
        "cpu": {
            "name": cpu.name,
            "architecture": cpu.architecture,
            "cores": cpu.cores,
            "machine_cores": cpu.machine_cores,
            "physical_cores": cpu.physical_cores,
            "caches": [asdict(cache) for cache in cpu.caches],
            "governor": governor(),
            "max_mhz": _max_mhz(),
            "hypervisor": hypervisor(),
        },
        "memory_bytes": cpu.memory_bytes,
        "cgroup": cgroup_limits(),
        "copy_bandwidth_bytes_per_s": bandwidth.bytes_per_s if bandwidth else None,
        "copy_bandwidth_method": f"{bandwidth.method}, {bandwidth.threads} threads" if bandwidth else None,
        "gpu": gpu_facts(device),
        "kernel": platform.release(),
        "os": platform.system(),
        "python": platform.python_version(),
        "packages": {name: package_version(name) for name in PACKAGES},
        "git_revision": revision,
        "git_changed": changed,
        "command": Path(sys.argv[0]).name or None,
        "device": device,
        "seed": seed,
    }


def moment(device: str) -> dict[str, Json]:
    """What changes by the second, in about a millisecond.

    Processor times are seconds since boot, over all cores: the differences of two moments say what a block of
    requests shared the machine with.
    """
    times = psutil.cpu_times()
    load_1m, load_5m, _ = psutil.getloadavg()
    return {
        "time": datetime.now(UTC).isoformat(),
        "cpu_mhz": current_mhz(),
        "load_1m": load_1m,
        "load_5m": load_5m,
        "cpu_user_s": times.user,
        "cpu_system_s": times.system,
        "cpu_steal_s": getattr(times, "steal", None),
        "memory_available_bytes": psutil.virtual_memory().available,
        "gpu": gpu_moment(device),
    }


def package_version(name: str) -> str | None:
    """The installed version of a package, None where there is none; imports nothing."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def git_revision(folder: Path) -> tuple[str | None, bool | None]:
    """The commit of the tree that `folder` is the top of, and whether tracked files differ from it.

    None, None where the code is installed and no work tree: the version in `packages` stands for it then.
    """
    if not (folder / ".git").exists():
        return None, None
    revision = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return revision, None if changes is None else changes != ""


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def governor(root: Path = Path("/")) -> str | None:
    """The frequency governor of the first core, such as `performance`; None where the kernel tells none."""
    return _text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def _max_mhz(root: Path = Path("/")) -> float | None:
    text = _text(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    return int(text) / _KHZ_PER_MHZ if text and text.isdigit() else None


def current_mhz(root: Path = Path("/")) -> list[Json]:
    """The present frequency of each core in MHz, as the kernel states it; empty where it does not."""
    text = _text(root / "proc/cpuinfo") or ""
    found: list[Json] = []
    for row in text.splitlines():
        name, _, value = row.partition(":")
        if name.strip() == "cpu MHz":
            found.append(float(value))
    return found


def hypervisor(root: Path = Path("/")) -> bool | None:
    """Whether the processor says that it is virtual; None where it cannot be asked."""
    flags = cpu_flags(root)
    return None if flags is None else "hypervisor" in flags


def cgroup_limits(root: Path = Path("/")) -> dict[str, Json]:
    """What the control group allows: cores (CPU time over time) and bytes of memory; None where unlimited."""
    quota, _, period = (_text(root / "sys/fs/cgroup/cpu.max") or "").partition(" ")
    memory = _text(root / "sys/fs/cgroup/memory.max") or ""
    return {
        "cpu_cores": int(quota) / int(period) if quota.isdigit() and period.isdigit() else None,
        "memory_bytes": int(memory) if memory.isdigit() else None,
    }


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None

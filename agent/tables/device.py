"""A device that a table is measured on: who holds it, what it is, whether a launch more fits."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.ground.target import find_target
from agent.tables.grid import REFERENCE, VLLM
from agent.tables.journal import Scope
from configs.asked_over import IN_ENGINE, AskedOver
from configs.errors import AutoinferError, UsageError
from configs.targets import CPU, kind_of
from experiments.engines.port import Infeasible
from experiments.engines.vllm.environment import needed_environment
from experiments.job.device_guard import others_of
from experiments.job.named import asked_in_the_way, load_engine
from experiments.job.unnamed_memory import allowed_bytes
from experiments.measurement.environment import package_version
from experiments.telemetry.free_memory import MemoryUnknown
from experiments.telemetry.identity import NoSuchDevice, card_uuid, identify
from experiments.telemetry.occupants import DeviceGone, DeviceUse, device_use

LEASES = "devices"
"""Folder of the cache with a lock file for each device."""

BESIDE_BYTES = 8 * 10**9
"""What a launch takes beside weights and cache, generously: the driver's context, graphs, workspaces."""

HUNG_BYTES = 2 * 10**9
"""What a load that hung holds at least, and a desktop does not: less keeps no load from being tried."""


@dataclass(frozen=True)
class TableDevice:
    """A device, its name and driver, the version of what serves on it, and how that is asked."""

    device: str
    name: str
    driver: str | None
    engine_version: str
    asked_over: AskedOver = IN_ENGINE
    memory_bytes: int | None = None
    """Of a GPU, as its driver tells it: some cards of one name have more or less, and another bandwidth."""
    uuid: str | None = None
    """Of a GPU, as its driver tells it: by it launches on one card are told from those on another."""

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU."""
        return kind_of(self.device) != CPU

    @property
    def scope(self) -> Scope:
        """What measurements of it belong together by."""
        return self.name, self.engine_version, self.asked_over

    def identity(self) -> dict[str, Any]:
        """What a journal's line tells of it."""
        return asdict(self)

    def has_room(self, needed_bytes: int) -> bool:
        """Whether a launch that needs so much fits beside what is there now; so on a processor."""
        if not self.is_gpu:
            return True
        try:
            free = identify(self.device).free_bytes
        except NoSuchDevice:
            return False
        return free is not None and free >= needed_bytes + BESIDE_BYTES

    def held_by(self, needed_bytes: int = 0, look: Callable[[str], DeviceUse] = device_use) -> str | None:
        """Who holds memory of a GPU on which no launch of this process is up, in words with number and GB;
        None for nobody, for too little to matter, where a launch that needs so much would not fit on the
        empty GPU either, on a processor, and where `look` can't tell."""
        if not self.is_gpu:
            return None
        try:
            use = look(self.device)
            if use.used_bytes < HUNG_BYTES or use.total_bytes < needed_bytes + BESIDE_BYTES:
                return None
            return others_of(use, frozenset(), 0, allowed_bytes())
        except (DeviceGone, MemoryUnknown):
            return None


def find_device(device: str, engine: str = VLLM, asked_over: AskedOver = IN_ENGINE) -> TableDevice:
    """The device of this name, with the engine that serves on it and how that is asked.

    Raises `AutoinferError` for one that is not there, or that no vLLM here serves on, and `UsageError` for
    one that the engine serves no table on, or for HTTP where the engine has none.
    """
    if asked_over != IN_ENGINE:
        asked_in_the_way(load_engine(engine), asked_over)
    target = find_target(device)
    gpu = target.gpu
    name = (target.cpu.name if gpu is None else gpu.name) or "processor"
    if engine == REFERENCE:
        if gpu is not None:
            raise UsageError(
                f"A table of the engine {engine} is measured on a processor, not on {device}.",
                f"Name it with --target {CPU}.",
            )
        versions = ", ".join(f"{each} {package_version(each)}" for each in ("torch", "transformers"))
        return TableDevice(device, f"{name}, {target.cpu.cores} cores", None, versions)
    try:
        found = needed_environment(device)
    except Infeasible as reason:
        raise AutoinferError(f"No table can be measured on {device}: {reason.cause}") from None
    if gpu is None:
        return TableDevice(device, name, None, found.version, asked_over)
    uuid = card_uuid(device)
    return TableDevice(device, name, gpu.driver, found.version, asked_over, gpu.memory_bytes, uuid)


@contextmanager
def leased(device: str, cache_dir: Path) -> Iterator[None]:
    """Hold a device alone; the lease ends with this process, however it ends.

    Raises `AutoinferError` when another process holds it.
    """
    folder = cache_dir / LEASES
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / f"{device.replace(':', '-')}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AutoinferError(
                f"{device} is being measured on by another process.",
                "Wait until it has ended, or name another device with --target.",
            ) from None
        yield
    finally:
        os.close(handle)

"""The target of a campaign, looked at before anything is measured: this machine's processor, or a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from configs.cpu import CpuProfile, probe_cpu
from configs.errors import AutoinferError, UsageError
from configs.registry import Port, names
from configs.targets import CPU, kind_of
from experiments.engines.port import Engine
from experiments.telemetry.identity import DeviceIdentity, NoSuchDevice, identify


@dataclass(frozen=True)
class Target:
    """Where a campaign measures: the device as jobs name it, this machine's processor, and the GPU if it is
    one."""

    device: str
    cpu: CpuProfile
    gpu: DeviceIdentity | None = None

    @property
    def key(self) -> str:
        """How the target is named where measurements are kept."""
        return self.cpu.target_key if self.gpu is None else self.gpu.target_key

    @property
    def memory_bytes(self) -> int:
        """Bytes of the memory that a model is held in."""
        return self.cpu.memory_bytes if self.gpu is None else self.gpu.memory_bytes

    def as_found(self) -> dict[str, object] | None:
        """What a stored campaign keeps of a GPU; None for a processor. What was free then is not kept."""
        if self.gpu is None:
            return None
        return {name: value for name, value in asdict(self.gpu).items() if name != "free_bytes"}


def find_target(device: str, identity: Callable[[str], DeviceIdentity] = identify) -> Target:
    """The target that `device` names here.

    Raises `UsageError` for what is no target, and `AutoinferError` for a GPU that is not there.
    """
    if kind_of(device) == CPU:
        return Target(device, probe_cpu())
    try:
        return Target(device, probe_cpu(), identity(device))
    except NoSuchDevice as reason:
        raise AutoinferError(
            f"There is no {device} to measure on: {reason}",
            "See what there is with: autoinfer devices. On this machine's processor: --target cpu",
        ) from None


def check_engine_is_here(engine: str, device: str) -> None:
    """Raise `UsageError` where nothing is registered that serves on this device."""
    known = names(Port.ENGINE)
    if engine not in known and kind_of(device) != CPU:
        told = ", ".join(known) or "none"
        raise UsageError(
            f"No engine for {device} is installed here: a GPU is served by {engine}, and registered are: "
            f"{told}.",
            "Install a package that brings it, or measure on this machine's processor: --target cpu",
        )


def check_serves(engine: Engine, device: str) -> None:
    """Raise `UsageError` for an engine that has no campaigns on this kind of device (`Engine`)."""
    kinds: tuple[str, ...] | None = getattr(engine, "campaign_devices", None)
    if kinds is not None and kind_of(device) not in kinds:
        raise UsageError(
            f"The engine {engine.name} has campaigns on {' and '.join(kinds)} alone, not on {device}.",
            f"Leave the engine out, so that {device} gets its own, or take the target {kinds[0]}.",
        )

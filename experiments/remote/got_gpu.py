"""Whether a run ran on the GPU that was asked for: looked at when its result is recorded, whatever the
executor did about it before. Pure but for the packaged profiles.

An executor says what it asks for by `gpu_asked(target)`; of one that does not, the hardware profile that its
`machine(target)` names says it. What it got is what the driver told in each launch and in the samples.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from configs.hardware import load_hardware_profile
from experiments.executors.asked_gpu import GB, AskedGpu, asked_by_profile
from experiments.executors.port import Executor
from experiments.job.result import Failure, JobResult


@dataclass(frozen=True)
class GotGpu:
    """A GPU by its driver's name and memory."""

    name: str
    memory_bytes: int

    @property
    def words(self) -> str:
        """As it is told."""
        return f"{self.name} with {self.memory_bytes / GB:.0f} GB"


def gpu_asked(executor: Executor, target: str) -> AskedGpu | None:
    """The GPU that is asked for there; None for none, and where the executor does not say."""
    own = getattr(executor, "gpu_asked", None)
    if own is not None:
        found: AskedGpu | None = own(target)
        return found
    machine = getattr(executor, "machine", None)
    hardware = None if machine is None else machine(target).hardware
    if hardware is None:
        return None
    return asked_by_profile(target.partition(":")[2], load_hardware_profile(hardware))


def gpus_of_launches(result: JobResult) -> tuple[GotGpu, ...]:
    """The GPUs that the launches of a result told, each once; a launch without one tells none."""
    found: dict[GotGpu, None] = {}
    for launch in result.launches:
        machine = launch.environment.get("machine")
        told = machine.get("gpu") if isinstance(machine, dict) else None
        if isinstance(told, dict) and (got := _got(told.get("name"), told.get("memory_bytes"))):
            found[got] = None
    return tuple(found)


def _got(name: object, memory_bytes: object) -> GotGpu | None:
    if not isinstance(name, str) or not isinstance(memory_bytes, int | float):
        return None
    return GotGpu(name, int(memory_bytes))


def compared(asked: AskedGpu | None, provider: str, got: Iterable[GotGpu], result: JobResult) -> JobResult:
    """The result as it may be recorded: where one of the GPUs is another than was asked for, without what it
    measured, and failed with a sentence that names both."""
    others = [
        other
        for each in got
        if asked is not None and (other := asked.other(provider, each.name, each.memory_bytes))
    ]
    if not others:
        return result
    failure = Failure("error", f"{others[0]}, so nothing of it is kept.")
    return replace(
        result, launches=(), artifacts=(), profile=(), chosen=None, configurations={}, failure=failure
    )

"""The target of a campaign, looked at before anything is measured: this machine's processor, or a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from configs.campaign import CampaignSpec
from configs.cpu import CpuProfile, probe_cpu
from configs.errors import AutoinferError, UsageError
from configs.hardware import load_hardware_profile
from configs.registry import Port, names, registered
from configs.targets import ALL_GPUS, CPU, LOCAL, devices_of, executor_of, is_rented, kind_of
from experiments.engines.port import Engine
from experiments.executors.port import RentedMachine
from experiments.telemetry.driver import NO_DRIVER
from experiments.telemetry.identity import GB, DeviceIdentity, NoSuchDevice, cuda_devices, identify

HOW_TO_ANSWER = (
    "Where there is one, nvidia-smi has to answer: install NVIDIA's driver, or start a container with its "
    "GPUs (docker run --gpus all). "
)
"""What to do where no driver answers and the machine has a GPU."""


@dataclass(frozen=True)
class Target:
    """Where a campaign measures: the devices as the queue names them, the processor there, and the GPU if
    they are some. Several devices are GPUs of one kind; `gpu` describes the first. `place` is who rents the
    machine out, None for this one; then nothing was probed, and GPU and processor are what is asked for."""

    device: str
    cpu: CpuProfile
    gpu: DeviceIdentity | None = None
    others: tuple[str, ...] = ()
    place: str | None = None

    @property
    def devices(self) -> tuple[str, ...]:
        """All of them, `device` first."""
        return (self.device, *self.others)

    @property
    def key(self) -> str:
        """How the target is named where measurements are kept; a rented one by its place too, because the
        same GPU has other clocks and other neighbours there."""
        kind = self.cpu.target_key if self.gpu is None else self.gpu.target_key
        return kind if self.place is None else f"{kind}:{self.place}"

    @property
    def memory_bytes(self) -> int:
        """Bytes of the memory that a model is held in."""
        return self.cpu.memory_bytes if self.gpu is None else self.gpu.memory_bytes

    def as_found(self) -> dict[str, object] | None:
        """What a stored campaign keeps of a GPU; None for a processor. What was free then is not kept."""
        if self.gpu is None:
            return None
        return {name: value for name, value in asdict(self.gpu).items() if name != "free_bytes"}


def find_target(
    target: str,
    identity: Callable[[str], DeviceIdentity] = identify,
    present: Callable[[], tuple[str, ...]] = cuda_devices,
    *,
    without_missing: bool = False,
) -> Target:
    """What `target` names: a device, several GPUs of one kind, or all those of the kind of the first; or what
    a rented target is asked to be.

    `without_missing` leaves devices out that are not there, as long as one is. Raises `UsageError` for what
    is no target and for GPUs that differ, and `AutoinferError` for a GPU that is not there.
    """
    named = devices_of(target)
    if is_rented(target):
        return _rented(target)
    if named == (CPU,):
        return Target(CPU, probe_cpu())
    everything = named == (ALL_GPUS,)
    if everything:
        named = present() or ("cuda:0",)
    found: dict[str, DeviceIdentity] = {}
    missing: dict[str, str] = {}
    for each in named:
        try:
            found[each] = identity(each)
        except NoSuchDevice as reason:
            missing[each] = str(reason)
    if not found or (missing and not (everything or without_missing)):
        device, reason_told = next(iter(missing.items()))
        raise AutoinferError(
            f"There is no {device} to measure on: {reason_told}",
            f"{HOW_TO_ANSWER if reason_told == NO_DRIVER else ''}"
            "See what there is with: autoinfer devices. On this machine's processor: --target cpu. What a "
            "campaign meets on a card that is not here: autoinfer plan --hardware 16GB",
        )
    first, *others = found
    like = [each for each in others if _differs(found[first], found[each]) is None]
    if len(like) < len(others) and not everything:
        other = next(each for each in others if each not in like)
        raise UsageError(
            f"The devices of a campaign are GPUs of one kind, and {first} and {other} differ: "
            f"{_differs(found[first], found[other])}.",
            f"Name those that are alike, or take {ALL_GPUS} for every GPU of the kind of the first.",
        )
    return Target(first, probe_cpu(), found[first], tuple(like))


def machine_asked(target: str) -> RentedMachine:
    """What a rented target is asked to be; raises `UsageError` where nobody rents it out, or no campaign can
    be run there."""
    place = executor_of(target, LOCAL)
    ask = getattr(registered(Port.EXECUTOR, place), "machine", None)
    if ask is None:
        raise UsageError(
            f"The executor {place} does not say what {target} is, so no campaign can be planned for it.",
            f"Jobs that are queued for it are run by: autoinfer worker --target {target}",
        )
    found: RentedMachine = ask(target)
    return found


def _rented(target: str) -> Target:
    """A rented target by what is asked for; what was got is compared when a job runs there."""
    machine, place = machine_asked(target), executor_of(target, LOCAL)
    cpu = CpuProfile(
        name="rented cores",
        architecture="unknown",
        cores=machine.cores,
        machine_cores=machine.cores,
        physical_cores=None,
        caches=(),
        memory_bytes=machine.memory_bytes,
    )
    if machine.hardware is None:
        return Target(target, cpu, place=place)
    listed = load_hardware_profile(machine.hardware)
    gpu = DeviceIdentity(
        listed.device_names[0], listed.memory_bytes, compute_capability=listed.compute_capability
    )
    return Target(target, cpu, gpu, place=place)


def _differs(one: DeviceIdentity, other: DeviceIdentity) -> str | None:
    """In what two GPUs differ that a measurement depends on, as a clause; None where they are alike."""
    if one.target_key != other.target_key:
        first, second = (f"{each.name} with {each.memory_bytes / GB:.0f} GB" for each in (one, other))
        return f"{first} and {second}"
    if one.compute_capability != other.compute_capability:
        return f"compute capability {one.compute_capability} and {other.compute_capability}"
    if one.driver != other.driver:
        return f"driver {one.driver} and {other.driver}"
    return None


def check_dollars(spec: CampaignSpec) -> None:
    """Raise `UsageError` for dollars where nothing costs any, and for a price to ask above in no budget."""
    given = spec.budget_usd is not None or spec.approve_above_usd is not None
    if given and not spec.rented:
        raise UsageError(
            f"The target {spec.target} costs no dollars.",
            "Leave the budget in dollars out, or name rented machines, such as --target modal:L4",
        )
    if spec.approve_above_usd is not None and spec.budget_usd is None:
        raise UsageError(
            "A price to ask above belongs to a budget in dollars, and none is given.",
            "Give one beside approve_above_usd: --budget-usd 20",
        )


def check_goes_there(spec: CampaignSpec) -> None:
    """Raise `UsageError` for what a campaign asks of a rented machine that jobs don't take there yet."""
    lacks = {
        "a drafter of your own": spec.drafter is not None,
        "tasks of lm-eval": bool(spec.plan.workload.evaluation_tasks),
    }
    for what, asked in lacks.items():
        if asked:
            raise UsageError(
                f"The campaign asks for {what}, which jobs don't take to rented machines yet.",
                "Leave it out, or measure on this machine: --target cuda:0",
            )


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

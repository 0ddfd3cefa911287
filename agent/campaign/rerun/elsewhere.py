"""Another target than a campaign's own: what is known of it, and whether it serves a test's arms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agent.campaign.beginning.named import engine_of
from agent.campaign.known.facts import Facts
from agent.ground.checkpoint import Checkpoint
from agent.ground.legal import Legal, gpu_served, legal_here
from agent.ground.target import check_engine_is_here, check_serves, find_target
from agent.plan.at_once import launches_of_test, parts_on, usable_on
from agent.plan.card import Card, card_of, card_of_rented
from agent.plan.fitting import sentence
from agent.plan.memory import Room
from agent.plan.model import ModelFound, model_at
from configs.errors import UsageError
from configs.registry import Port, names
from configs.targets import CPU, CUDA, check_one_device, is_rented
from experiments.engines.launch_memory import needed_bytes
from experiments.engines.port import Infeasible
from experiments.job.named import engine_for
from experiments.measurement.evidence import Json
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration
from experiments.telemetry.identity import DeviceIdentity


@dataclass(frozen=True)
class Elsewhere:
    """A target: `device` as jobs name it, `key` as measurements are kept by it.

    `card` is what launches must fit on, None where nothing is known of it before the job is there; `cores`
    are its processor's, None likewise. A rented target is kept by what was asked for, provider included,
    since clocks and neighbours are the provider's.
    """

    device: str
    key: str
    card: Card | None = None
    cores: int | None = None

    @property
    def rented(self) -> bool:
        """Whether it is a rented machine, which costs money."""
        return is_rented(self.device)

    @property
    def kind(self) -> str:
        """`cpu` or `cuda`."""
        provider, _, name = self.device.partition(":")
        return CPU if CPU in (provider, name) else CUDA


def find_elsewhere(target: str) -> Elsewhere:
    """What `target` names: one device of this machine, or rented machines.

    Raises `UsageError` for what is no target or names several devices, and `AutoinferError` for a GPU that is
    not there.
    """
    if is_rented(target):
        return Elsewhere(target, target, card_of_rented(target))
    check_one_device(target, "A test")
    found = find_target(target)
    return Elsewhere(found.device, found.key, card_of(found), found.cpu.cores)


def check_arms(facts: Facts, there: Elsewhere, arms: Mapping[str, Configuration]) -> int | None:
    """Raise `UsageError` with the first cause where the target can't serve one of these arms, by name; else
    give how many launches of them may be up at once there (as `launches_of_test`).

    Looked at are the engine, what the space offers on such a GPU (kernels, cores), memory, and, on this
    machine, the engine's own check. What is not known of a rented machine is left to the job there, which
    ends as infeasible.
    """
    spec = facts.spec
    if not there.rented:
        check_engine_is_here(spec.engine, there.device)
    known = spec.engine in names(Port.ENGINE)
    engine = engine_of(spec, facts.label) if known else None
    if engine is not None:
        check_serves(engine, there.kind if there.kind == CPU else f"{CUDA}:0")
    model = model_at(spec.model, Checkpoint(facts.checkpoint))
    here, legal = legal_here(spec, facts.checkpoint, facts.cores), _legal(facts, there)
    for name, arm in arms.items():
        for before, why in (
            (here.why_not(arm), legal.why_not(arm)),
            (here.refused(arm), legal.refused(arm)),
        ):
            if why is not None and before is None:
                raise UsageError(f"The {name} can't run on {there.device}: {why}", _OTHER)
    workload = Workload.model_validate(spec.plan.workload.model_dump())
    context = workload.context_tokens
    at_once = facts.at_once
    if there.card is not None:
        _check_memory(facts, there, there.card, model, arms, context)
        at_once = launches_of_test(spec, model, there.card, arms.values(), context)
    if engine is not None and not there.rented:
        for name, arm in arms.items():
            try:
                engine_for(engine, at_once, workload).check(arm, facts.checkpoint, there.device, context)
            except Infeasible as reason:
                raise UsageError(f"The {name} can't run on {there.device}: {reason.cause}", _OTHER) from None
    return at_once


def facts_there(facts: Facts, there: Elsewhere, arms: Mapping[str, Configuration]) -> Facts:
    """What is known of a campaign as a test of these arms on that target goes by it; raises as
    `check_arms`."""
    return replace(
        facts,
        target_key=there.key,
        at_once=check_arms(facts, there, arms),
        # another Python there cuts other texts: both arms get them, and the reference too
        baseline_experiment_id=None if there.rented else facts.baseline_experiment_id,
    )


_OTHER = "Name another target; nothing was queued."


def ran_elsewhere(there: str, machine: Mapping[str, Json], card: Card | None) -> str | None:
    """What a launch told that it ran on, where that is not the target of the key `there`; None where it is,
    and where it told nothing.

    On a rented machine the executor itself refuses another GPU than it asked for; where a packaged profile
    lists that GPU, its driver's name is looked at once more.
    """
    gpu, cpu = machine.get("gpu"), machine.get("cpu")
    if is_rented(there):
        told = gpu.get("name") if isinstance(gpu, dict) else None
        listed = None if card is None else card.listed
        return None if listed is None or told is None or told in listed.device_names else str(told)
    found = None
    if there.startswith(f"{CUDA}:") and isinstance(gpu, dict):
        memory = gpu.get("memory_bytes")
        if isinstance(memory, int):
            found = DeviceIdentity(str(gpu.get("name")), memory).target_key
    if there.startswith(f"{CPU}:") and isinstance(cpu, dict):
        found = f"{CPU}:{cpu.get('name')}:{cpu.get('cores')} cores"
    return None if found is None or found == there else found


def _legal(facts: Facts, there: Elsewhere) -> Legal:
    """What may be asked for there."""
    gpu = None
    if there.card is not None and there.card.is_gpu:
        gpu = there.card.served(gpu_served(facts.spec, there.card.compute_capability, there.device))
    return legal_here(facts.spec, facts.checkpoint, there.cores or facts.cores, gpu)


def _check_memory(
    facts: Facts,
    there: Elsewhere,
    card: Card,
    model: ModelFound,
    arms: Mapping[str, Configuration],
    context: int,
) -> None:
    for name, arm in arms.items():
        needed = needed_bytes(parts_on(facts.spec, model, card, arm, context))
        room = Room(f"The {name}", needed, usable_on(card))
        if not room.fits:
            raise UsageError(sentence(room, card.name), _OTHER)

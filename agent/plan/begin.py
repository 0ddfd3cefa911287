"""What a plan is made from on this machine: the engine's own check, and what was measured here before."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.ground.checkpoint import Checkpoint
from agent.ground.target import Target, find_target
from agent.plan.at_once import IN_TURN
from agent.plan.card import card_of
from agent.plan.ground import Ground
from agent.plan.levers import Check
from agent.plan.load_and_request import Stored
from agent.plan.model import model_at
from agent.plan.plan import Plan, make_plan
from agent.plan.stored_times import stored_times
from configs.campaign import CampaignSpec
from configs.campaign_plan import WorkloadSpec
from configs.catalog import Kind, packaged_names
from configs.core_shares import shares_here
from configs.errors import UsageError
from configs.model_names import HubName
from configs.registry import Port, registered
from configs.targets import CPU, SPACE_FOR, kind_of
from db.models import Campaign
from experiments.engines.port import Engine, Infeasible
from experiments.engines.reference.expected_tensors import check_served_tensors
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.job.named import engine_for, newer_told
from experiments.measurement.plan import Workload
from experiments.measurement.prompts import load_tokenizer
from experiments.reference_model.load import no_checkpoint
from experiments.space.configuration import Configuration

FALLBACK_SPACE = "levers"
"""The packaged space whose pruning, quantization and drafting any engine may have."""


WEIGHTS_NOT_HERE = "The engine itself was not asked: it looks at weights, and they are not here."

ENGINE_IS_THERE = (
    "The engine itself was not asked: it is on the rented machine, and the first job there is the first that "
    "it says anything about."
)


def space_that_is_here(spec: CampaignSpec) -> tuple[CampaignSpec, tuple[str, ...]]:
    """The campaign in a space that this installation has, and what to say where that is not its engine's."""
    wanted = SPACE_FOR.get(spec.engine)
    if spec.space != wanted or wanted in packaged_names(Kind.SPACES):
        return spec, ()
    note = (
        f"The space {wanted} is not in this installation, so the knobs are those of {FALLBACK_SPACE}, whose "
        "serving.* are another engine's."
    )
    return spec.model_copy(update={"space": FALLBACK_SPACE}), (note,)


def plan_on(spec: CampaignSpec, ground: Ground, stored: Stored) -> Plan:
    """The plan of a campaign on the ground that was found for it; raises as `make_plan`."""
    hub = ground.hub
    source = None if hub is None else HubName(hub["repo"], hub["revision"])
    checkpoint = Checkpoint(ground.checkpoint, source, None if hub is None else hub["commit"], ground.note)
    target = find_target(spec.target)
    if target.place is None:
        check, note = engine_check(spec, ground.checkpoint, target.device, ground.at_once)
    else:
        check, note = None, None  # the ground's note says so
    return make_plan(
        spec,
        model_at(spec.model, checkpoint),
        card_of(target),
        cores=ground.cores,
        check=check,
        stored=stored,
        notes=(*devices_told(target), *(() if note is None else (note,))),
        in_turn=ground.at_once == IN_TURN,
        begun_from=ground.start,
    )


def devices_told(target: Target) -> tuple[str, ...]:
    """What to say of a target of several devices; nothing of one."""
    if not target.others:
        return ()
    together = " and ".join(target.devices)
    own = shares_here(target.devices).get(target.device)
    cores = (
        "and share the processors, which are too few to share out"
        if own is None
        else f"each with {len(own)} of this machine's processors to itself"
    )
    others = "" if own is None else ", while the others build what is known to be loaded first"
    return (
        f"The baseline is measured on {target.device}{others}; then {together} have one test each at a time, "
        f"{cores}.",
    )


def engine_check(
    spec: CampaignSpec, folder: Path | None, device: str, at_once: int | None = None
) -> tuple[Check | None, str | None]:
    """The engine's static check of a configuration of the checkpoint in `folder` on `device`, and what it
    means that it is newer than what was run; None, and why, where it can't be asked."""
    if folder is None:
        return None, " ".join(filter(None, (WEIGHTS_NOT_HERE, newer_told(spec.engine, device))))
    workload = Workload.model_validate(spec.plan.workload.model_dump())
    if kind_of(device) != CPU and spec.launches == "auto":
        at_once = IN_TURN  # what a GPU does not hold twice is tested so
    try:
        engine = engine_for(cast(Engine, registered(Port.ENGINE, spec.engine)()), at_once, workload)
    except UsageError as missing:
        return None, f"The engine itself was not asked: {missing.message}"

    def check(configuration: Configuration) -> None:
        engine.check(configuration, folder, device, workload.context_tokens)

    return check, newer_told(spec.engine, device)


def unfit_checkpoint(folder: Path | None) -> str | None:
    """Why no campaign would begin with the checkpoint of this folder, whatever serves it, in a sentence; None
    where nothing is known against it, or there is none."""
    if folder is None:
        return None
    if (missing := no_checkpoint(folder)) is not None:
        return str(missing)
    try:
        check_served_tensors(inspect_checkpoint(folder))
        load_tokenizer(folder)
    except Infeasible as broken:
        return broken.cause
    except UsageError as unread:
        return str(unread)
    return None


def known_times(
    session: Session,
    target_key: str,
    folder: Path | None,
    engine: str,
    workload: WorkloadSpec,
    fingerprint: str | None = None,
) -> Stored:
    """What is stored of this target, model, engine and workload; without a fingerprint the model is known by
    the folder that an earlier campaign had it in."""
    fingerprint = fingerprint or known_fingerprint(session, folder)
    return stored_times(session, target_key, fingerprint, engine, workload)


def known_fingerprint(session: Session, folder: Path | None) -> str | None:
    """The fingerprint of the model that an earlier campaign had in the folder; None where none had."""
    if folder is None:
        return None
    query = (
        select(Campaign.model_fingerprint)
        .where(Campaign.spec["found"]["checkpoint"].as_string() == str(folder))
        .order_by(Campaign.id.desc())
        .limit(1)
    )
    return session.scalars(query).first()

"""Starting a campaign: find the checkpoint and the target, look at both, and write the campaign down."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from agent.campaign.allowance import asked_above, set_dollars
from agent.campaign.checkpoint import find_checkpoint
from agent.campaign.drafter import check_fits, drafter_of, fetch_weights
from agent.campaign.fewer_bits import THEN
from agent.campaign.legal import legal_here
from agent.campaign.named import check_names, engine_of
from agent.campaign.quality_tasks import check_quality_tasks
from agent.campaign.questions import check_questions
from agent.campaign.shape import SHAPES, check_serves_shapes, find_shape
from agent.campaign.stored_spec import AT_ONCE, FOUND, GPU, HUB, START, asked_of, is_packaged
from agent.campaign.target import (
    Target,
    check_dollars,
    check_engine_is_here,
    check_goes_there,
    check_serves,
    find_target,
    machine_asked,
)
from agent.plan.at_once import IN_TURN, launches_at_once
from agent.plan.card import card_of, limited
from agent.plan.legal_planned import planned_legal
from agent.plan.model import find_model, model_at
from agent.plan.start import Start, first_served, swept_from
from agent.plan.starting import check_start, start_on
from configs.campaign import ApprovalSpec, CampaignSpec
from configs.data_dir import default_data_dir
from configs.errors import UsageError
from configs.model_names import hub_name
from configs.quantities import format_duration, format_usd
from configs.targets import device_there, is_rented
from db import events
from db.campaign_owner import free_from_the_dead
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign
from db.noise import SERIES_NAME
from db.states import CampaignState
from experiments.engines.port import Engine, Infeasible
from experiments.engines.reference.shape import read_profile
from experiments.job.named import engine_for
from experiments.measurement.plan import Workload
from experiments.measurement.prompts import load_tokenizer
from experiments.reference_model.load import checkpoint_fingerprint
from experiments.space.configuration import Configuration
from experiments.space.loading import load_space
from experiments.space.space import Space
from knowledge.latency_only import LATENCY_ONLY, UNKNOWN_QUALITY, model_words

SHORT_COMMIT = 12
"""Digits of a commit in a sentence."""


ENGINE_IS_THERE = (
    "The engine itself was not asked: it is on the rented machine, and the first job there is the first that "
    "it says anything about."
)


@dataclass(frozen=True)
class Ground:
    """What a campaign stands on: the checkpoint's folder and content, the target, the cores, the layers, and
    the folder of its own drafter, absolute, where it was given one.

    `warning` is what the user should know before it begins, in a sentence: a baseline above the budget. `hub`
    tells of a model of the hub (`repo`, `revision`, `commit`), `gpu` what the device is; `note` is what to
    say of how the checkpoint was found. `at_once` is the most launches that may be up at once, 1 where they
    run in turn, None for as many as a step asks for. `devices` are those that the
    target was found to name, the baseline's first; empty for what it says itself.
    """

    checkpoint: Path
    fingerprint: str
    target_key: str
    cores: int
    model_layers: tuple[str, ...]
    drafter: str | None = None
    warning: str | None = None
    hub: Mapping[str, str] | None = None
    gpu: Mapping[str, object] | None = None
    note: str | None = None
    at_once: int | None = None
    devices: tuple[str, ...] = ()
    start: Start | None = None
    """What it begins from; None: the engine's own default."""

    def begins_from(self, space: Space) -> Configuration:
        """The configuration that the campaign's sweep starts at."""
        return space.configuration({}) if self.start is None else self.start.configuration

    @property
    def start_told(self) -> str | None:
        """What to say of what it begins from; None of the engine's own default."""
        return None if self.start is None else self.start.told


def survey(
    spec: CampaignSpec,
    where: str = "The campaign",
    shapes: Path | None = None,
    *,
    without_missing: bool = False,
) -> Ground:
    """Look at the checkpoint, the target, and what the campaign asks of them. Loads no weights.

    A model of the hub is fetched when everything else is there; without weights its shape is written below
    the folder `shapes` (the data's own if not given). `without_missing` leaves out devices that are not there
    any more, as long as one is. Raises `AutoinferError` with what to do when
    something is missing, and `UsageError` that names `where`, which is the campaign's file, for a name that
    nothing is registered under, a swept knob or a question that its space does not have, more requests at
    once than its engine serves, a parameter budget that can't be met, a drafter that is none or does not
    fit the model, and a quality task that can't be asked here.
    """
    check_dollars(spec)
    target = find_target(spec.target, without_missing=without_missing)
    if spec.rented:
        check_goes_there(spec)
    check_engine_is_here(spec.engine, target.device)
    space = load_space(spec.space)
    check_names(spec, space, where)
    engine = engine_of(spec, where)
    check_serves(engine, target.device)
    for each in spec.confirm_on:
        _check_confirms(spec, engine, each)
    if spec.latency_only:
        check_serves_shapes(engine)
        found = find_shape(spec.model, shapes or default_data_dir(os.environ) / SHAPES)
    else:
        _check_before_fetching(spec, target)
        found = find_checkpoint(spec.model)
    folder = found.folder
    fingerprint = checkpoint_fingerprint(folder)
    check_questions(spec, space, where)
    of_drafter = fetch_weights(spec)
    drafter = drafter_of(spec)
    if drafter is not None:
        check_fits(drafter, folder, built_here=not getattr(engine, "runs_drafters_itself", False))
    capability = None if target.gpu is None else target.gpu.compute_capability
    legal = legal_here(spec, folder, target.cpu.cores, compute_capability=capability)
    if not spec.latency_only:
        load_tokenizer(folder)
    of_tasks = check_quality_tasks(spec, folder)
    context = max(of_tasks, Workload.model_validate(spec.plan.workload.model_dump()).context_tokens)
    model, card = model_at(spec.model, found), limited(card_of(target), spec.memory)
    start = start_on(spec, model, card, legal, context)
    check_start(spec, card, start)
    place = (folder, target.device)

    def checked(each: Start) -> int | None:
        fit = launches_at_once(spec, model, card, each.configuration, context)
        if target.place is not None:
            return fit  # the engine is there
        sweep = swept_from(each, spec, legal.space, where)
        return _checked_sweep(spec, engine, sweep, place, fit, of_tasks)

    start = first_served(start, lambda each: _why_not(checked, each))
    at_once = checked(start)
    note = " ".join(filter(None, (found.note, of_drafter))) or None
    if target.place is not None:
        note = " ".join(each for each in (note, ENGINE_IS_THERE) if each)
    return Ground(
        checkpoint=folder,
        fingerprint=fingerprint,
        target_key=target.key,
        cores=target.cpu.cores,
        model_layers=read_profile(folder).layer_types,
        drafter=None if drafter is None else drafter.folder,
        warning=legal.over_budget(spec.parameter_budget),
        hub=found.as_found(),
        gpu=target.as_found(),
        note=note,
        at_once=at_once,
        devices=target.devices,
        start=start,
    )


def _check_before_fetching(spec: CampaignSpec, target: Target) -> None:
    """Raise as `check_start` for a model of the hub whose weights are not here, before they are fetched."""
    if hub_name(spec.model) is None or Path(spec.model).expanduser().is_dir():
        return
    model = find_model(spec.model)
    if model.whole:
        return
    card = limited(card_of(target), spec.memory)
    legal = planned_legal(spec, model, card, target.cpu.cores)
    context = Workload.model_validate(spec.plan.workload.model_dump()).context_tokens
    check_start(spec, card, start_on(spec, model, card, legal, context))


def _why_not(checked: Callable[[Start], object], start: Start) -> str | None:
    try:
        checked(start)
    except UsageError as refused:
        return refused.message
    return None


def _check_confirms(spec: CampaignSpec, engine: Engine, device: str) -> None:
    """Raise `UsageError` for a target on which the engine can confirm nothing, and `AutoinferError` for a
    device that is not there."""
    if is_rented(device):
        machine_asked(device)
    else:
        find_target(device)
        check_engine_is_here(spec.engine, device)
    check_serves(engine, device_there(device))


def _checked_sweep(
    spec: CampaignSpec,
    engine: Engine,
    sweep: Sequence[Configuration],
    served: tuple[Path, str],
    at_once: int | None,
    context_tokens: int,
) -> int | None:
    """How many launches may be up at once, with the engine's own word on the memory of what the sweep
    crosses, of the folder and on the device of `served`; raises `UsageError`, with the first cause, where it
    can serve nothing of it, or not sequences of so many tokens."""
    first: Infeasible | None = None
    for each in sweep:
        try:
            engine_for(engine, at_once).check(each, *served, context_tokens)
        except Infeasible as reason:
            first = first or reason
        else:
            return at_once
    assert first is not None  # the engine's own default is crossed at least
    if first.kind == "out_of_memory" and spec.launches == "auto" and at_once != IN_TURN:
        return _checked_sweep(spec, engine, sweep, served, IN_TURN, context_tokens)
    raise UsageError(
        f"The engine {spec.engine} can't serve the model in what the campaign begins from: {first.cause}",
        "Put that right first; no campaign was begun.",
    )


def interrupted(session: Session, spec: CampaignSpec, ground: Ground) -> int | None:
    """The newest campaign of the same spec on the same ground that never came to its end and that nobody
    drives, if there is one."""
    same_ground = (
        Campaign.name != SERIES_NAME,
        Campaign.state != CampaignState.STOPPED,
        Campaign.model_fingerprint == ground.fingerprint,
        Campaign.target == ground.target_key,
    )
    for row in session.scalars(select(Campaign).where(*same_ground).order_by(Campaign.id.desc())):
        free_from_the_dead(session, row)
    free = or_(Campaign.owner.is_(None), Campaign.owner_lease_expires_at <= now())
    rows = session.scalars(select(Campaign).where(*same_ground, free).order_by(Campaign.id.desc()))
    wanted = spec_on(spec, ground)
    return next((row.id for row in rows if stored_spec(row) == wanted), None)


def spec_on(spec: CampaignSpec, ground: Ground) -> CampaignSpec:
    """What was asked for with the folders and devices that were found in place of what was typed, as
    `stored_spec` has it."""
    model = spec.model if is_packaged(spec.model, spec.weights) else str(ground.checkpoint)
    found = {"model": model, "drafter": ground.drafter, "target": _target_on(spec, ground)}
    return spec.model_copy(update=found)


def _target_on(spec: CampaignSpec, ground: Ground) -> str:
    """The target with every device by its own name."""
    return ",".join(ground.devices) or spec.target


def stored_spec(campaign: Campaign) -> CampaignSpec | None:
    """What a stored campaign was started with; None for one that this version does not understand."""
    try:
        return CampaignSpec.model_validate(asked_of(campaign))
    except ValidationError:
        return None


def found_on(ground: Ground) -> dict[str, object]:
    """What a stored campaign keeps of its ground, beside what was asked for."""
    return {
        "target_key": ground.target_key,
        "cores": ground.cores,
        "model_layers": list(ground.model_layers),
        "checkpoint": str(ground.checkpoint),
        **({} if ground.hub is None else {HUB: dict(ground.hub)}),
        **({} if ground.gpu is None else {GPU: dict(ground.gpu)}),
        **({} if ground.at_once is None else {AT_ONCE: ground.at_once}),
        **({} if ground.start is None or ground.start.is_default else {START: _as_found(ground.start)}),
    }


def _as_found(start: Start) -> dict[str, object]:
    return {
        "configuration": dict(start.configuration),
        "words": start.words,
        "why": start.refused,
        "told": start.told,
        **({} if start.then is None else {THEN: _as_found(start.then)}),
    }


def create_campaign(session: Session, spec: CampaignSpec, ground: Ground) -> int:
    """Write the campaign and its first event; returns its id."""
    plan = spec.plan
    campaign = Campaign(
        name=spec.name,
        model=model_words(spec.model, made_up=spec.latency_only),
        model_fingerprint=ground.fingerprint,
        target=ground.target_key,
        objective={"metric": plan.metric, "concurrency": plan.workload.concurrency},
        limits={
            "min_effect": plan.min_effect,
            **({"quality": UNKNOWN_QUALITY} if spec.latency_only else _margins(spec)),
            "alpha": plan.alpha,
        },
        budget={"wall_s": spec.budget.wall_s, "spent_s": 0.0, **asked_above(spec.approve_above)},
        seed=spec.seed,
        spec={
            **spec.model_dump(mode="json"),
            "drafter": ground.drafter,
            "target": _target_on(spec, ground),
            FOUND: found_on(ground),
        },
    )
    session.add(campaign)
    session.flush()
    campaign.started_at = now()
    set_dollars(session, campaign.id, spec.budget_usd, spec.approve_above_usd)
    events.append(
        session,
        EventKind.CAMPAIGN_STARTED,
        f"{spec.plan.metric.removesuffix('_ms').upper()} of {_model_words(spec, ground)} at concurrency "
        f"{plan.workload.concurrency} on {_on(ground)}: worth having from "
        f"{plan.min_effect:.0%} on, {quality_asked(spec)}, budget {format_duration(spec.budget.wall_s)}"
        f"{_dollars(spec)}, "
        f"{_asks(spec.approve_above)}seed {spec.seed}"
        + ("; launches run in turn" if ground.at_once == IN_TURN else "")
        + "".join(f"{mark} {each}" for mark, each in zip((".", ""), _to_know(ground), strict=False)),
        subject=format_label(Noun.CAMPAIGN, campaign.id),
        campaign_id=campaign.id,
    )
    return campaign.id


def _to_know(ground: Ground) -> list[str]:
    """What the user should know before it begins, in sentences."""
    return [each for each in (ground.start_told, ground.warning) if each]


def _margins(spec: CampaignSpec) -> dict[str, float]:
    margins = spec.plan.margins
    return {"bits_per_byte": margins.bits_per_byte, "task_points": margins.task_points}


def quality_asked(spec: CampaignSpec) -> str:
    """The campaign's limits of quality, as a clause; of made-up weights that there are none."""
    if spec.latency_only:
        return f"{LATENCY_ONLY}, {UNKNOWN_QUALITY}"
    margins = spec.plan.margins
    return (
        f"bits per byte at most +{margins.bits_per_byte:.1%}, tasks at most −{margins.task_points:g} points"
    )


def _dollars(spec: CampaignSpec) -> str:
    return "" if spec.budget_usd is None else f" and {format_usd(spec.budget_usd)}"


def _asks(approve_above: ApprovalSpec | None) -> str:
    if approve_above is None:
        return ""
    return f"what is expected to take more than {format_duration(approve_above.wall_s)} waits for approval, "


def _on(ground: Ground) -> str:
    """What a campaign measures on, without the kind of it: its device, or how many of it."""
    name = ground.target_key.partition(":")[2] or ground.target_key
    return name if len(ground.devices) < 2 else f"{len(ground.devices)} × {name}"


def _model_words(spec: CampaignSpec, ground: Ground) -> str:
    """The model as it was asked for, and the commit that this was."""
    if ground.hub is None:
        return model_words(spec.model, made_up=spec.latency_only)
    return f"{spec.model} (commit {ground.hub['commit'][:SHORT_COMMIT]})"

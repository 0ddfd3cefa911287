"""Looking at what a campaign is to stand on, before it is begun: the checkpoint and the target."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.campaign.beginning.named import check_names, engine_of
from agent.campaign.beginning.quality_tasks import check_quality_tasks
from agent.campaign.queue.questions import check_questions
from agent.ground.checkpoint import find_checkpoint
from agent.ground.drafter import check_fits, drafter_of, fetch_weights
from agent.ground.legal import gpu_known, legal_here
from agent.ground.model_told import with_the_model
from agent.ground.positions import space_before
from agent.ground.shape import SHAPES, check_serves_shapes, find_shape
from agent.ground.sweep import passed_over
from agent.ground.target import (
    Target,
    check_dollars,
    check_engine_is_here,
    check_goes_there,
    check_serves,
    find_target,
    machine_asked,
)
from agent.plan.at_once import IN_TURN, launches_at_once
from agent.plan.begin import ENGINE_IS_THERE
from agent.plan.card import card_of, limited
from agent.plan.further import further_of, unserved_further
from agent.plan.ground import Ground
from agent.plan.legal_planned import planned_legal
from agent.plan.model import find_model, model_at
from agent.plan.start import Start, first_served, swept_from
from agent.plan.starting import check_start, start_on
from agent.plan.tools_there import MadeOn, missing_tools
from configs.campaign import CampaignSpec
from configs.data_dir import default_data_dir
from configs.errors import AutoinferError, UsageError
from configs.model_names import hub_name
from configs.targets import device_there, is_rented
from experiments.engines.port import Engine, Infeasible
from experiments.engines.reference.expected_tensors import check_served_tensors
from experiments.engines.reference.finite_weights import check_finite
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.reference.shape import read_profile
from experiments.job.named import asked_in_the_way, engine_for
from experiments.measurement.plan import Workload
from experiments.measurement.prompts import load_tokenizer
from experiments.reference_model.load import checkpoint_fingerprint
from experiments.space.configuration import Configuration

PUT_RIGHT = "Put that right first; no campaign was begun."


def survey(
    spec: CampaignSpec,
    where: str = "The campaign",
    shapes: Path | None = None,
    *,
    without_missing: bool = False,
    worked_here: bool = True,
) -> Ground:
    """Look at the checkpoint, the target, and what the campaign asks of them. Loads no weights.

    A model of the hub is fetched when everything else is there; without weights its shape is written below
    the folder `shapes` (the data's own if not given). `without_missing` leaves out devices that are not there
    any more, as long as one is; what makes checkpoints here is looked at only where the campaign is
    `worked_here`, by a worker of this machine. Raises `AutoinferError` with what to do when something is
    missing, and `UsageError` that names `where`, which is the campaign's file, for a name that nothing is
    registered under, a checkpoint that is not whole, a swept knob or a question that its space does not
    have, more requests at once than its engine serves, a further workload that what it begins from does
    not, a parameter budget that can't be met, a drafter that is none or does not fit the model, and a
    quality task that can't be asked here.
    """
    check_dollars(spec)
    try:
        target = find_target(spec.target, without_missing=without_missing)
    except AutoinferError as absent:
        raise with_the_model(absent, spec.model, shapes=spec.latency_only) from None
    made_on = MadeOn.of(spec, target, worked_here=worked_here)
    if spec.rented:
        check_goes_there(spec)
    check_engine_is_here(spec.engine, target.device)
    space = space_before(spec)
    check_names(spec, space, where)
    engine = engine_of(spec, where)
    check_serves(engine, target.device)
    asked_in_the_way(engine, spec.plan.workload.asked_over)
    for each in spec.confirm_on:
        _check_confirms(spec, engine, each)
    if spec.latency_only:
        check_serves_shapes(engine)
        found = find_shape(spec.model, shapes or default_data_dir(os.environ) / SHAPES)
    else:
        _check_before_fetching(spec, target, made_on)
        found = find_checkpoint(spec.model)
    folder = found.folder
    fingerprint = checkpoint_fingerprint(folder)
    check_questions(spec, space, where)
    of_drafter = fetch_weights(spec)
    drafter = drafter_of(spec)
    if drafter is not None:
        check_fits(drafter, folder, built_here=not getattr(engine, "runs_drafters_itself", False))
    found_gpu = target.gpu
    gpu = (
        None
        if found_gpu is None
        else gpu_known(spec, found_gpu.compute_capability, found_gpu.memory_bytes, found_gpu.name)
    )
    legal = legal_here(spec, folder, target.cpu.cores, gpu)
    if not spec.latency_only:
        _check_whole(folder)
    of_tasks = check_quality_tasks(spec, folder)
    context = max(of_tasks, Workload.model_validate(spec.plan.workload.model_dump()).context_tokens)
    model, card = model_at(spec.model, found), limited(card_of(target), spec.memory)
    start = start_on(spec, model, card, legal, context)
    check_start(spec, card, start, made_on)
    place = (folder, target.device)

    def checked(each: Start) -> int | None:
        fit = launches_at_once(spec, model, card, each.configuration, context)
        if target.place is not None:
            return fit  # the engine is there
        sweep = swept_from(each, spec, legal, where)
        return _checked_sweep(spec, engine, sweep, place, fit, of_tasks)

    start = first_served(start, lambda each: _why_not(checked, each))
    at_once = checked(start)
    for number, _, why in unserved_further(spec, model, card, start.configuration, at_once):
        raise _refused_further(where, number, why)
    if target.place is None:
        _check_further(spec, engine_for(engine, at_once), start.configuration, place, context, where)
    passed = passed_over(legal.space, start.configuration, legal.withheld, spec.baseline.sweep)
    note = " ".join(filter(None, (found.note, of_drafter, passed))) or None
    if target.place is not None:
        note = " ".join(each for each in (note, ENGINE_IS_THERE) if each)
    missing = missing_tools(spec, legal, made_on)
    to_know = (legal.over_budget(spec.parameter_budget), *(each.told for each in missing))
    return Ground(
        checkpoint=folder,
        fingerprint=fingerprint,
        target_key=target.key,
        cores=target.cpu.cores,
        model_layers=read_profile(folder).layer_types,
        drafter=None if drafter is None else drafter.folder,
        warning=" ".join(filter(None, to_know)) or None,
        missing=missing,
        hub=found.as_found(),
        gpu=target.as_found(),
        note=note,
        at_once=at_once,
        devices=target.devices,
        start=start,
    )


def _check_whole(folder: Path) -> None:
    """Raise `UsageError` for a checkpoint whose weights or tokenizer are not whole, or whose weights are no
    numbers, whatever is to serve it: the engine may be on a machine that is rented."""
    load_tokenizer(folder)
    try:
        files = inspect_checkpoint(folder)
        check_served_tensors(files)
        check_finite(files)
    except Infeasible as damaged:
        raise UsageError(damaged.cause, PUT_RIGHT) from None


def _check_before_fetching(spec: CampaignSpec, target: Target, made_on: MadeOn | None) -> None:
    """Raise as `check_start` for a model of the hub whose weights are not here, before they are fetched."""
    if hub_name(spec.model) is None or Path(spec.model).expanduser().is_dir():
        return
    model = find_model(spec.model)
    if model.whole:
        return
    card = limited(card_of(target), spec.memory)
    legal = planned_legal(spec, model, card, target.cpu.cores)
    context = Workload.model_validate(spec.plan.workload.model_dump()).context_tokens
    check_start(spec, card, start_on(spec, model, card, legal, context), made_on)


def _check_further(
    spec: CampaignSpec,
    engine: Engine,
    begun: Configuration,
    served: tuple[Path, str],
    context_tokens: int,
    where: str,
) -> None:
    """Raise `UsageError` for a further workload whose sequences the engine itself refuses in what the
    campaign begins from, where it does not refuse those of `context_tokens`, the plan's own."""
    further = further_of(spec)
    if not further or _infeasible(engine, begun, served, context_tokens) is not None:
        return
    for number, each in enumerate(further):
        cause = _infeasible(engine, begun, served, each.context_tokens)
        if cause is not None:
            raise _refused_further(where, number, cause)


def _infeasible(
    engine: Engine, begun: Configuration, served: tuple[Path, str], context_tokens: int
) -> str | None:
    try:
        engine.check(begun, *served, context_tokens)
    except Infeasible as reason:
        return reason.cause
    return None


def _refused_further(where: str, number: int, why: str) -> UsageError:
    return UsageError(
        f"{where}: further_workloads.{number} can't be measured in what the campaign begins from: {why}",
        "Make it smaller or take it out; or begin from what serves it: --baseline KNOB=VALUE",
    )


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
    workload = Workload.model_validate(spec.plan.workload.model_dump())
    for each in sweep:
        try:
            engine_for(engine, at_once, workload).check(each, *served, context_tokens)
        except Infeasible as reason:
            first = first or reason
        else:
            return at_once
    assert first is not None  # the engine's own default is crossed at least
    if first.kind == "out_of_memory" and spec.launches == "auto" and at_once != IN_TURN:
        return _checked_sweep(spec, engine, sweep, served, IN_TURN, context_tokens)
    raise UsageError(
        f"The engine {spec.engine} can't serve what the campaign begins from: {first.cause}",
        PUT_RIGHT,
    )

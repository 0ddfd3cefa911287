"""What a job of a rented target takes if all of its plan is measured, told before it is submitted: its limit,
and so the most that it may cost, rest on it (`experiments.remote.limiting`)."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.orm import Session

from agent.ground.stored_spec import FOUND
from agent.plan.card import card_of_rented
from agent.plan.duration import (
    baseline_seconds,
    block_seconds,
    further_seconds,
    kernels_seconds,
    loaded_together,
    test_seconds,
    warm_seconds,
)
from agent.plan.length import ARMS
from agent.plan.load_and_request import (
    Stored,
    expected_load,
    expected_request,
    first_load_takes_more_s,
    known_load,
    known_request,
    weights_read,
)
from agent.plan.model import ModelFound, model_in
from agent.plan.stored_times import stored_times
from configs.campaign_plan import PlanSpec, WorkloadSpec
from configs.errors import AutoinferError
from db.models import Campaign
from experiments.engines.launch_memory import weight_bytes
from experiments.engines.port import Infeasible
from experiments.job.named import serves_packed
from experiments.job.spec import AnyJob, BaselineJob, BuildJob, Knobs, TestJob
from experiments.measurement.plan import StoppingPlan, Workload
from experiments.shapes.marker import is_shape

_NO_BUDGET_S = 1e12
"""The plan of a job was cut to its campaign's budget when it was made."""


def planned_seconds(session: Session, spec: AnyJob, target: str) -> float | None:
    """Seconds of a campaign's job on the target with all that its plan allows, by what was measured there,
    else by the model's shape and the GPU's listed rates; builds are not counted, and what kernels compile at
    each load is, once they were timed there. None where the model is not here."""
    campaign = session.get(Campaign, spec.campaign_id)
    folder = _folder(campaign)
    elsewhere = spec.target if isinstance(spec, TestJob) else None
    key = elsewhere or (target if campaign is None else campaign.target)
    model = None if folder is None else _model(spec.model, folder)
    if model is None:
        return None
    stored = stored_times(session, key, spec.model_fingerprint, spec.engine, workload_of(spec))
    return job_seconds(spec, target, model, stored)


def workload_of(spec: AnyJob) -> Workload:
    """What a job asks of an engine."""
    return spec.plan.workload if isinstance(spec, TestJob) else spec.workload


def job_seconds(spec: AnyJob, target: str, model: ModelFound, stored: Stored) -> float:
    """The same of a job of any model, by what is `stored` of it on the target. Of a shape, whose weights are
    made up, none are read, and its baseline is not scored. Reads no more than whether the model's folder is a
    shape."""
    card = card_of_rented(target)
    listed = None if card is None else card.listed
    workload = _workload(workload_of(spec))
    size = model.stored_bytes or model.file_bytes or weight_bytes(model.profile, {})
    on_gpu = not target.endswith(":cpu")
    made_up = model.checkpoint is not None and is_shape(model.checkpoint.folder)
    load_s, _ = known_load(expected_load(spec.engine, size, on_gpu=on_gpu, made_up=made_up), stored)
    weights = weights_read(model.profile, {}, workload, packed=serves_packed(spec.engine))
    expected = expected_request(model.profile, workload, listed, on_gpu=on_gpu, weights=weights)
    request = known_request(expected, stored)
    # Each machine is a new one, whatever was measured: its first load finds nothing that was compiled.
    first_s = first_load_takes_more_s(spec.engine, on_gpu=on_gpu)
    if isinstance(spec, BuildJob):
        return 0.0  # it loads nothing, and what stages take to build is not foreseen here
    if isinstance(spec, BaselineJob):
        noise = (spec.noise_launches, spec.noise_blocks)
        together = on_gpu and spec.at_once is None
        sweep = (len(spec.sweep), spec.sweep_blocks)
        first_s += kernels_seconds(spec.engine, bool(spec.kernels), workload.concurrency, on_gpu=on_gpu)
        return first_s + baseline_seconds(
            workload, *sweep, noise, load_s, request, together=together, scored=not made_up
        )
    if isinstance(spec, TestJob):
        plan = _plan(spec.plan)
        compiles_s = _compiles_s(stored, spec.control, spec.candidate, in_turn=spec.in_turn)
        _, most_s = test_seconds(
            plan,
            _NO_BUDGET_S,
            load_s,
            request,
            in_turn=spec.in_turn,
            compiles_s=compiles_s,
            further_s=further_seconds(spec.further_here, workload, request),
            scored=not spec.plan.latency_only,
            together=loaded_together(plan, spec.at_once, None, latency_only=spec.plan.latency_only),
        )
        return first_s + most_s
    blocks_s = warm_seconds(workload, request) + spec.blocks * block_seconds(workload, request)
    compiles_s = _compiles_s(stored, spec.configuration, spec.configuration, in_turn=True)
    return first_s + ARMS * (load_s + blocks_s) + compiles_s


def _compiles_s(stored: Stored, control: Knobs, candidate: Knobs, *, in_turn: bool) -> float:
    """Seconds by which kernels that are compiled lengthen a pair, where they were timed on the target."""
    return 0.0 if stored.timed is None else stored.timed.pair_compiles_s(control, candidate, in_turn=in_turn)


def _folder(campaign: Campaign | None) -> Path | None:
    found = None if campaign is None else campaign.spec.get(FOUND)
    return Path(str(found["checkpoint"])) if isinstance(found, dict) and "checkpoint" in found else None


def _model(asked: str, folder: Path) -> ModelFound | None:
    try:
        return model_in(asked, folder)
    except (AutoinferError, Infeasible, OSError, ValueError):  # its campaign says what is wrong with it
        return None


def _workload(workload: Workload) -> WorkloadSpec:
    return WorkloadSpec.model_validate(workload.model_dump())


def _plan(plan: StoppingPlan) -> PlanSpec:
    """The part of a plan that takes time; on which metric it decides makes no difference to that."""
    return PlanSpec(
        metric="tpot_ms",
        min_effect=plan.min_effect,
        alpha=plan.alpha,
        workload=_workload(plan.workload),
        quick_blocks=plan.quick_blocks,
        full_blocks=plan.full_blocks,
        full_pairs=plan.full_pairs,
        validation_pairs=plan.validation_pairs,
    )

"""The least time to a first token, and what lies above it, of a campaign about one request at once.

From the profiles of a lone prompt (docs/profile.md) that the baseline and the best have. They are taken
within the engine, of a few prompts of one launch, so the measured time has more: prompts and launches that
were slower, and where requests come over HTTP, that and the tokenizer. That is told apart, and taken for none
of the model's parts.
"""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.asked_over import ASKED_OVER, HTTP, IN_ENGINE
from db.labels import Noun, parse_label_of
from db.models import Campaign, Environment, Launch
from experiments.measurement.evidence import Metric, Stage
from knowledge.queries.measured.baseline_run import newest_baseline
from knowledge.queries.measured.stages import stages_of
from knowledge.queries.measured.step_profile import (
    PART_WORDS,
    StepProfileView,
    prompt_profile,
    why_no_prompt_profile,
)
from knowledge.queries.present.now_best import BestView
from knowledge.queries.present.now_floor import OverheadView, PromptFloorView
from knowledge.stored import number, workload_of

FIRST_TOKEN = Metric.TTFT_MS.value
"""The metric that a lone prompt's profile tells of."""

ABOVE_FLOOR = "kernels above their floor"
ABOVE_OR_WITHOUT = "kernels above their floor, or without one"
"""The same where the work of some is not counted, whose time is all of it here."""
BEYOND_PROFILE = "beyond the profiled prompt"

BEYOND_OVER = {
    HTTP: "HTTP, the tokenizer, and prompts and launches that were slower",
    IN_ENGINE: "prompts and launches that were slower",
}
"""What lies there, by the way that the measured requests reach the engine."""

NOT_KNOWN = "The least time by physics is not known here: "
NOT_PROFILED = NOT_KNOWN + "no lone prompt was profiled."
NO_BANDWIDTH = NOT_KNOWN + "the memory's bandwidth was not measured."
BEST_NOT_PROFILED = "No lone prompt of the best was profiled, so its floor is not known."
BEST_NO_BANDWIDTH = (
    "The memory's bandwidth was not measured beside the best's profile, so its floor is not known."
)
"""Why there is no floor, a sentence each."""


def with_first_token(session: Session, campaign: Campaign, best: BestView) -> BestView:
    """The best of a campaign about first tokens, with the floors that lone prompts' profiles tell of it and
    of the baseline, or why there is none; five statements at most."""
    at_once = _several_at_once(campaign)
    if at_once is not None:
        several = f"The least time by physics is told of a lone prompt, and here are {at_once:g} at once."
        return best.model_copy(update={"no_floor": several})
    baseline, why = profiled_prompt(session, newest_baseline(session, campaign.id))
    if baseline is None:
        return best.model_copy(update={"no_floor": _because(NOT_PROFILED, why)})
    floor = prompt_floor_of(baseline)
    if floor is None:
        return best.model_copy(update={"no_floor": NO_BANDWIDTH})
    asked = workload_of(campaign.spec.get("plan") or {}).get(ASKED_OVER)
    found = {
        "floor": floor,
        "best_floor": floor,
        "overhead": prompt_overhead_of(baseline, floor, best.baseline_ms),
        "beyond": BEYOND_OVER[HTTP if asked == HTTP else IN_ENGINE],
    }
    if best.experiment is not None:
        own, why = profiled_prompt(session, parse_label_of(Noun.EXPERIMENT, best.experiment))
        found["best_floor"] = own_floor = None if own is None else prompt_floor_of(own)
        found["best_overhead"] = () if own is None else prompt_overhead_of(own, own_floor, best.best_ms)
        if own is None:
            found["no_floor"] = _because(BEST_NOT_PROFILED, why)
        elif own_floor is None:
            found["no_floor"] = BEST_NO_BANDWIDTH
    return best.model_copy(update=found)


def baseline_prompt_floor(session: Session, campaign: Campaign) -> PromptFloorView | None:
    """The floor of the baseline's lone prompt; None where none was profiled, the bandwidth is not known, or
    the campaign has several requests at once. Three statements at most."""
    if _several_at_once(campaign) is not None:
        return None
    profile, _ = profiled_prompt(session, newest_baseline(session, campaign.id))
    return None if profile is None else prompt_floor_of(profile)


def _several_at_once(campaign: Campaign) -> float | None:
    """The requests at once that it is measured at, where they are not one: a prompt is alone in none then."""
    at_once = number(campaign.objective.get("concurrency"))
    return None if at_once == 1 else at_once


def prompt_floor_of(profile: StepProfileView) -> PromptFloorView | None:
    """The floor of a lone prompt's profile; None where it or the bandwidth is not known. Pure."""
    if not profile.floor_ms or not profile.bandwidth_bytes_per_s or profile.prompt_tokens is None:
        return None
    return PromptFloorView(
        ms=profile.floor_ms,
        prompt_tokens=profile.prompt_tokens,
        bandwidth_bytes_per_s=profile.bandwidth_bytes_per_s,
        operations_per_s=profile.operations_per_s,
        profiled_ms=profile.step_ms,
    )


def prompt_overhead_of(
    profile: StepProfileView, floor: PromptFloorView | None, ttft_ms: float
) -> tuple[OverheadView, ...]:
    """The time to the first token above its floor, in milliseconds: of kernels, outside them, and beyond the
    profile; nothing where there is no floor or the time lies below it. Pure.

    Where prompts took longer while they were profiled than `ttft_ms`, nothing lies beyond, and what is above
    the floor shares what was measured. Parts that beat their floor leave less to the other kernels.
    """
    if floor is None or floor.ms >= ttft_ms:
        return ()
    kernels_ms = max(0.0, profile.step_ms - profile.outside_ms - floor.ms)
    above_ms, measured_ms = kernels_ms + profile.outside_ms, ttft_ms - floor.ms
    scale = min(1.0, measured_ms / above_ms) if above_ms else 1.0
    return (
        OverheadView(part=ABOVE_FLOOR if profile.all_counted else ABOVE_OR_WITHOUT, ms=scale * kernels_ms),
        OverheadView(part=PART_WORDS["outside"], ms=scale * profile.outside_ms),
        OverheadView(part=BEYOND_PROFILE, ms=max(0.0, measured_ms - above_ms)),
    )


def _because(sentence: str, why: str | None) -> str:
    return f"{sentence} {why}" if why else sentence


def profiled_prompt(session: Session, experiment_id: int | None) -> tuple[StepProfileView | None, str | None]:
    """The profile of a lone prompt that an experiment has, or why it has none where that was told; two
    statements."""
    if experiment_id is None:
        return None, None
    stages = stages_of(session, experiment_id, Stage.PROFILE)
    environments = session.scalars(
        select(Environment.data)
        .join(Launch, Launch.environment_digest == Environment.digest)
        .where(Launch.experiment_id == experiment_id)
        .order_by(Launch.id)
        .limit(1)
    )
    return prompt_profile(stages, environments), why_no_prompt_profile(stages)

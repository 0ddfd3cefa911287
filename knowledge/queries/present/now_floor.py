"""The least time that a token can take, by physics, and what the baseline spends above it, part by part.

A decode step reads its weights once, and the keys, values and states of its sequence, so it can't be faster
than those bytes over the memory's bandwidth. Of a configuration that was profiled the bytes are known by
part. Of another one they are the baseline's times how its served weights compare in size, and where it
drafts, what the drafter reads is added. Where it drafts, all of it is shared by the tokens that a step gives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import fsum

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Environment, Experiment, Launch, StageRun
from db.models.base import JsonObject
from db.states import Arm, ExperimentKind, ExperimentState
from experiments.engines.served_step import OUTSIDE, as_served
from experiments.measurement.evidence import Stage
from knowledge.queries.measured.step_profile import PART_WORDS, bandwidth_of, moved_bytes
from knowledge.queries.view import View
from knowledge.stored import number

MS_PER_S = 1e3

MOST_PARTS = 5
"""Parts of the overhead that are told apart, the last of them all the others together."""


TOO_HIGH = (
    "so the floor is too high: something else used the memory while its bandwidth was measured, or a cache, "
    "which is faster, held some of the bytes."
)
"""What is to be made of a time below its floor, as the end of a sentence."""

PROMPT_TOO_HIGH = (
    "so the floor is too high: the device copies or multiplies faster than was measured, or a cache of "
    "prefixes spared some of the prompt."
)
"""The same of a first token."""


class FloorView(View):
    """The least time of a token: `step_bytes` over the bandwidth, shared by `tokens` a step."""

    ms: float
    step_bytes: int
    bandwidth_bytes_per_s: float
    tokens: float

    @property
    def too_high(self) -> str:
        """What is to be made of a time below it."""
        return TOO_HIGH


class PromptFloorView(View):
    """The least time to the first token of a lone prompt: of each part its bytes over the bandwidth or its
    operations over their rate, whichever takes longer. The rate is None where it was not measured;
    `profiled_ms` is what the prompt took within the engine."""

    ms: float
    prompt_tokens: int
    bandwidth_bytes_per_s: float
    operations_per_s: float | None
    profiled_ms: float

    @property
    def too_high(self) -> str:
        """What is to be made of a time below it."""
        return PROMPT_TOO_HIGH


class OverheadView(View):
    """Time above the floor that one kind of part takes, or what else it goes to."""

    part: str
    ms: float


class Part(View):
    """A kind of part of the profiled step: its time, and the bytes that it moves."""

    kind: str
    time_ms: float
    moved_bytes: int


class Profile(View):
    """A profile by kind of part, and the target's copy bandwidth; empty and None where they were not
    measured."""

    experiment_id: int | None = None
    parts: tuple[Part, ...] = ()
    bandwidth_bytes_per_s: float | None = None


def profile_of(session: Session, campaign_id: int) -> Profile:
    """What the baseline's experiment profiled; two statements."""
    run = session.execute(
        select(StageRun.experiment_id, StageRun.detail)
        .join(Experiment, Experiment.id == StageRun.experiment_id)
        .where(
            Experiment.campaign_id == campaign_id,
            Experiment.kind == ExperimentKind.BASELINE,
            Experiment.state == ExperimentState.DONE,
            StageRun.stage == Stage.PROFILE.value,
        )
        .order_by(StageRun.id.desc())
        .limit(1)
    ).one_or_none()
    if run is None:
        return Profile()
    detail = run.detail or {}
    bandwidth = bandwidth_of(detail) or session.scalar(
        select(Environment.data["machine"]["copy_bandwidth_bytes_per_s"].as_float())
        .join(Launch, Launch.environment_digest == Environment.digest)
        .where(Launch.experiment_id == run.experiment_id)
        .order_by(Launch.id)
        .limit(1)
    )
    return Profile(
        experiment_id=run.experiment_id,
        parts=_by_kind(detail),
        bandwidth_bytes_per_s=bandwidth,
    )


def profile_of_best(session: Session, experiment_id: int) -> Profile:
    """What a test's experiment profiled of its candidate; one statement."""
    detail = session.scalar(
        select(StageRun.detail)
        .where(StageRun.experiment_id == experiment_id, StageRun.stage == Stage.PROFILE.value)
        .order_by(StageRun.id.desc())
        .limit(1)
    )
    if not detail or not detail.get("parts"):
        return Profile()
    return Profile(
        experiment_id=experiment_id, parts=_by_kind(detail), bandwidth_bytes_per_s=bandwidth_of(detail)
    )


def _by_kind(detail: JsonObject) -> tuple[Part, ...]:
    parts = detail.get("parts")
    times: dict[str, list[float]] = defaultdict(list)
    read: dict[str, int] = defaultdict(int)
    for part in parts if isinstance(parts, list) else []:
        kind, time_ms = part.get("kind"), number(part.get("time_ms"))
        if isinstance(kind, str) and time_ms is not None:
            times[kind].append(time_ms)
            read[kind] += moved_bytes(part)
    return tuple(
        Part(kind=kind, time_ms=fsum(found), moved_bytes=read[kind]) for kind, found in times.items()
    )


def floor_of(profile: Sequence[Part], bandwidth: float | None, tokens: float = 1.0) -> FloorView | None:
    """The floor of what was profiled, of whose steps each gives `tokens`; None where bytes or bandwidth are
    not known. Pure."""
    step_bytes = sum(part.moved_bytes for part in profile)
    if not bandwidth or not step_bytes:
        return None
    return FloorView(
        ms=MS_PER_S * step_bytes / bandwidth / tokens,
        step_bytes=step_bytes,
        bandwidth_bytes_per_s=bandwidth,
        tokens=tokens,
    )


def overhead_of(profile: Sequence[Part], floor: FloorView | None, tpot_ms: float) -> tuple[OverheadView, ...]:
    """The time of a token above its floor by kind of part, largest first; pure.

    Profiling slows a step, so the profile's times are shares of `tpot_ms`; of a GPU's step what lies outside
    kernels is no more than a token leaves for it (`served_step.py`). A part that is faster than its bytes
    allow (they lie in a cache) has no overhead, and the others are scaled to the whole.
    """
    if floor is not None and floor.tokens == 1:
        profile = _served(profile, tpot_ms)
    total_ms = fsum(part.time_ms for part in profile)
    if floor is None or total_ms <= 0 or floor.ms >= tpot_ms:
        return ()
    above = {
        part.kind: max(
            0.0,
            part.time_ms / total_ms * tpot_ms
            - MS_PER_S * part.moved_bytes / floor.bandwidth_bytes_per_s / floor.tokens,
        )
        for part in profile
    }
    scale = (tpot_ms - floor.ms) / (fsum(above.values()) or 1.0)
    ranked = sorted(above.items(), key=lambda item: (-item[1], item[0]))
    named = [OverheadView(part=PART_WORDS.get(kind, kind), ms=ms * scale) for kind, ms in ranked if ms > 0]
    if len(named) <= MOST_PARTS:
        return tuple(named)
    others = fsum(each.ms for each in named[MOST_PARTS - 1 :])
    return (*named[: MOST_PARTS - 1], OverheadView(part="all other parts", ms=others))


def _served(profile: Sequence[Part], token_ms: float) -> Sequence[Part]:
    """A GPU's profile with no more time outside kernels than a token leaves for it."""
    outside_ms = fsum(part.time_ms for part in profile if part.kind == OUTSIDE)
    if not outside_ms:
        return profile
    kernels_ms = fsum(part.time_ms for part in profile if part.kind != OUTSIDE)
    factor, left_ms = as_served(kernels_ms, outside_ms, token_ms)
    scale = {OUTSIDE: left_ms / outside_ms}
    return [
        part.model_copy(update={"time_ms": scale.get(part.kind, factor) * part.time_ms}) for part in profile
    ]


def resolved(session: Session, experiment_id: int, arm: Arm) -> JsonObject:
    """What the last launch of an arm of an experiment resolved to; empty where there was none."""
    query = (
        select(Launch.resolved)
        .where(Launch.experiment_id == experiment_id, Launch.arm == arm)
        .order_by(Launch.id.desc())
        .limit(1)
    )
    return session.scalar(query) or {}


def best_floor_of(
    floor: FloorView | None, baseline: JsonObject, best: JsonObject, acceptance_length: float | None
) -> FloorView | None:
    """The floor of another configuration by what it and the baseline resolved to; None where it is not known.

    Pure. Known where both tell the bytes of their served weights, and of a drafter what it reads and how many
    tokens a step gave.
    """
    before, after = number(baseline.get("weight_bytes")), number(best.get("weight_bytes"))
    if floor is None or not before or not after:
        return None
    step_bytes, tokens = floor.step_bytes * after / before, 1.0
    drafting = _object(best.get("drafting"))
    if drafting.get("method", "none") != "none":
        reads = number(_object(drafting.get("drafter")).get("weight_bytes"))
        drafted = number(drafting.get("draft_tokens"))
        if acceptance_length is None or reads is None or drafted is None:
            return None
        step_bytes, tokens = step_bytes + drafted * reads, acceptance_length
    return FloorView(
        ms=MS_PER_S * step_bytes / floor.bandwidth_bytes_per_s / tokens,
        step_bytes=round(step_bytes),
        bandwidth_bytes_per_s=floor.bandwidth_bytes_per_s,
        tokens=tokens,
    )


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}

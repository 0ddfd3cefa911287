"""The best configuration of a campaign at this moment, read from what the log tells of it and what physics
allows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.event_kinds import EventKind
from db.events import of_kind
from db.labels import Noun, parse_label_of
from db.models import Campaign, Event
from db.models.base import JsonObject
from db.states import Arm
from knowledge.figures import DEFAULT_METRIC
from knowledge.queries.baseline_time import baseline_time_ms
from knowledge.queries.present.now_best import (
    CHAIN,
    MOST_STEPS,
    BestView,
    Told,
    baseline_best,
    bests_told,
    margin_of,
    steps_of,
    tested,
)
from knowledge.queries.present.now_floor import (
    FloorView,
    Profile,
    best_floor_of,
    floor_of,
    overhead_of,
    profile_of,
    profile_of_best,
    resolved,
)
from knowledge.queries.present.now_prompt import FIRST_TOKEN, with_first_token
from knowledge.stored import metric_of, number

MOST_BESTS = 60
"""Bests of which the steps are put together, the newest."""


def best_of(session: Session, campaign: Campaign) -> BestView | None:
    """The best so far; None before trial 0 is measured. Ten statements at most."""
    measured = next(iter(_events(session, campaign.id, EventKind.CAMPAIGN_BASELINE, 1)), None)
    data = {} if measured is None else measured.data or {}
    baseline, naive = (data.get(name) or {} for name in ("baseline", "naive"))
    measured_by = None if measured is None else measured.subject
    metric = metric_of(campaign.objective)
    own_ms = baseline_time_ms(session, campaign, metric, baseline) if baseline else None
    if own_ms is None:
        return None
    # A profile of decode steps has a floor for the time of a token, and for no other time.
    profile = profile_of(session, campaign.id) if metric == DEFAULT_METRIC else Profile()
    floor = floor_of(profile.parts, profile.bandwidth_bytes_per_s)
    told = bests_told(_events(session, campaign.id, EventKind.CAMPAIGN_BEST, MOST_BESTS))
    if not told:
        overhead = overhead_of(profile.parts, floor, own_ms)
        best = baseline_best(baseline, naive, metric, own_ms, measured_by, floor, overhead)
    else:
        best = _improved(session, campaign, baseline, naive, own_ms, measured_by, told, profile, floor)
    return with_first_token(session, campaign, best) if metric == FIRST_TOKEN else best


def _improved(
    session: Session,
    campaign: Campaign,
    baseline: JsonObject,
    naive: JsonObject,
    own_ms: float,
    measured_by: str | None,
    told: Sequence[Told],
    profile: Profile,
    floor: FloorView | None,
) -> BestView:
    last = told[-1]
    known = tested(session, [each.experiment for each in told[-MOST_STEPS:]])
    final = known.get(last.experiment)
    data, chained = last.data, last.data.get("speedup_basis") == CHAIN
    metric = metric_of(campaign.objective)
    control_ms, latency_ms = number(data.get(f"control_{metric}")), number(data.get(metric))
    if chained or control_ms is None or latency_ms is None:
        baseline_ms, best_ms = own_ms, own_ms / last.speedup
    else:
        baseline_ms, best_ms, measured_by = control_ms, latency_ms, last.experiment
    naive_ms = number(naive.get(metric))
    interval = data.get("speedup_interval")
    low, high = interval if isinstance(interval, list) and len(interval) == 2 else (None, None)
    best_run = parse_label_of(Noun.EXPERIMENT, last.experiment)
    configuration, before = data.get("configuration") or {}, baseline.get("configuration") or {}
    quality = final.quality if final else {}
    own = Profile()
    if best_run is not None and metric == DEFAULT_METRIC:
        own = profile_of_best(session, best_run)
    acceptance = final.acceptance_length if final else None
    best_floor = _profiled_floor(own, configuration, profile.bandwidth_bytes_per_s, acceptance)
    return BestView(
        metric=metric,
        experiment=last.experiment,
        configuration=configuration,
        changed={knob: value for knob, value in configuration.items() if before.get(knob) != value},
        speedup=last.speedup,
        speedup_low=low,
        speedup_high=high,
        chained=chained,
        latency_ms=latency_ms if chained and latency_ms is not None else best_ms,
        control_ms=control_ms,
        low_ms=None if high is None else baseline_ms / high,
        high_ms=None if low is None else baseline_ms / low,
        bits_per_byte=margin_of(quality, "bits_per_byte_relative"),
        tasks=margin_of(quality, "task_points_lost"),
        note=data.get("note"),
        baseline_ms=baseline_ms,
        baseline_experiment=measured_by,
        best_ms=best_ms,
        naive_ms=None if naive_ms is None else baseline_ms * (naive_ms / own_ms),
        steps=steps_of(told, known, campaign.baseline_configuration_id, baseline_ms, best_ms),
        floor=floor,
        best_floor=best_floor
        or best_floor_of(
            floor,
            {} if profile.experiment_id is None else resolved(session, profile.experiment_id, Arm.CONTROL),
            resolved(session, best_run, Arm.CANDIDATE),
            acceptance,
        ),
        overhead=overhead_of(profile.parts, floor, baseline_ms),
        best_overhead=overhead_of(own.parts, best_floor, best_ms),
    )


def _profiled_floor(
    own: Profile, configuration: JsonObject, bandwidth: float | None, acceptance_length: float | None
) -> FloorView | None:
    """The floor of a best that was profiled itself; None where it was not, or where it drafts and how many
    tokens a step gives is not known."""
    drafts = configuration.get("drafting.method", "none") != "none"
    if drafts and acceptance_length is None:
        return None
    tokens = acceptance_length if drafts and acceptance_length is not None else 1.0
    return floor_of(own.parts, own.bandwidth_bytes_per_s or bandwidth, tokens)


def _events(session: Session, campaign_id: int, kind: EventKind, limit: int) -> list[Event]:
    query = select(Event).where(of_kind(kind, campaign_id)).order_by(Event.id.desc()).limit(limit)
    return list(session.scalars(query))[::-1]

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
from knowledge.queries.now_best import (
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
from knowledge.queries.now_floor import (
    FloorView,
    Profile,
    best_floor_of,
    floor_of,
    overhead_of,
    profile_of,
    profile_of_best,
    resolved,
)
from knowledge.stored import number

MOST_BESTS = 60
"""Bests of which the steps are put together, the newest."""


def best_of(session: Session, campaign: Campaign) -> BestView | None:
    """The best so far; None before trial 0 is measured. Nine statements at most."""
    measured = _event_data(session, campaign.id, EventKind.CAMPAIGN_BASELINE)
    baseline, naive = (measured.get(name) or {} for name in ("baseline", "naive"))
    tpot_ms = number(baseline.get("tpot_ms"))
    if tpot_ms is None:
        return None
    profile = profile_of(session, campaign.id)
    floor = floor_of(profile.parts, profile.bandwidth_bytes_per_s)
    told = bests_told(_events(session, campaign.id, EventKind.CAMPAIGN_BEST, MOST_BESTS))
    if not told:
        return baseline_best(baseline, naive, floor, overhead_of(profile.parts, floor, tpot_ms))
    return _improved(session, campaign, baseline, naive, told, profile, floor)


def _improved(
    session: Session,
    campaign: Campaign,
    baseline: JsonObject,
    naive: JsonObject,
    told: Sequence[Told],
    profile: Profile,
    floor: FloorView | None,
) -> BestView:
    last = told[-1]
    known = tested(session, [each.experiment for each in told[-MOST_STEPS:]])
    final = known.get(last.experiment)
    data, chained = last.data, last.data.get("speedup_basis") == CHAIN
    control_ms, tpot_ms = number(data.get("control_tpot_ms")), number(data.get("tpot_ms"))
    own_ms = number(baseline.get("tpot_ms")) or 1.0
    baseline_ms = own_ms if chained or control_ms is None else control_ms
    best_ms = baseline_ms / last.speedup if chained or tpot_ms is None else tpot_ms
    interval = data.get("speedup_interval")
    low, high = interval if isinstance(interval, list) and len(interval) == 2 else (None, None)
    best_run = parse_label_of(Noun.EXPERIMENT, last.experiment)
    configuration, before = data.get("configuration") or {}, baseline.get("configuration") or {}
    quality = final.quality if final else {}
    own = Profile() if best_run is None else profile_of_best(session, best_run)
    acceptance = final.acceptance_length if final else None
    best_floor = _profiled_floor(own, configuration, profile.bandwidth_bytes_per_s, acceptance)
    return BestView(
        experiment=last.experiment,
        configuration=configuration,
        changed={knob: value for knob, value in configuration.items() if before.get(knob) != value},
        speedup=last.speedup,
        speedup_low=low,
        speedup_high=high,
        chained=chained,
        tpot_ms=tpot_ms if tpot_ms is not None else best_ms,
        control_tpot_ms=control_ms,
        tpot_low_ms=None if high is None else baseline_ms / high,
        tpot_high_ms=None if low is None else baseline_ms / low,
        bits_per_byte=margin_of(quality, "bits_per_byte_relative"),
        tasks=margin_of(quality, "task_points_lost"),
        note=data.get("note"),
        baseline_ms=baseline_ms,
        best_ms=best_ms,
        naive_ms=number(naive.get("tpot_ms")),
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


def _event_data(session: Session, campaign_id: int, kind: EventKind) -> JsonObject:
    found = _events(session, campaign_id, kind, 1)
    return (found[0].data or {}) if found else {}


def _events(session: Session, campaign_id: int, kind: EventKind, limit: int) -> list[Event]:
    query = select(Event).where(of_kind(kind, campaign_id)).order_by(Event.id.desc()).limit(limit)
    return list(session.scalars(query))[::-1]

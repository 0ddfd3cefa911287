"""What experiments took whose time nobody wrote down: those that have not ended, and attempts that broke off.

The time of an experiment is written with its end, and is that of its last attempt. Of every other attempt is
known when a worker took it, and when it was last heard of: by a stage that began or ended, and, of an attempt
that a worker still holds, by its last sign of life. What passed between is the least that it took.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Event, Experiment, Job, RemoteRun, Worker
from db.states import JobState
from knowledge.queries.view import View

Sign = tuple[datetime, bool]
"""When an attempt was heard of, and whether it began then."""

_SIGNS = (EventKind.JOB_CLAIMED, EventKind.STAGE_STARTED, EventKind.STAGE_FINISHED)
"""Events that are written while an attempt is at work; that its lease ran out is found out later."""


class UntimedView(View):
    """Seconds at least of experiments that have not ended, and of `attempts` that broke off of such as ended
    otherwise or later."""

    unfinished_s: float = 0.0
    attempts: int = 0
    broken_off_s: float = 0.0


def attempts_s(signs: Iterable[Sign]) -> list[float]:
    """What each attempt took at least, in seconds, in their order; signs before the first are passed over."""
    found: list[tuple[datetime, datetime]] = []
    for at, begins in sorted(signs, key=lambda sign: (sign[0], not sign[1])):
        if begins:
            found.append((at, at))
        elif found:
            found[-1] = (found[-1][0], at)
    return [(last - first).total_seconds() for first, last in found]


def untimed(session: Session, campaign_id: int | None) -> UntimedView:
    """The least that a campaign, or all of them, spent on what has no time of its own; three statements, one
    where all experiments ended at their first attempt. Of rented machines only what has not ended: a run
    there goes on without its worker, so that what took it over began nothing anew."""
    rented = select(RemoteRun.experiment_id).where(RemoteRun.experiment_id.is_not(None))
    query = (
        select(Experiment.id, Experiment.finished_at, Experiment.wall_s)
        .join(Job, Job.experiment_id == Experiment.id)
        .where(
            Experiment.started_at.is_not(None),
            or_(
                Experiment.finished_at.is_(None),
                (func.coalesce(Experiment.wall_s, 0.0) == 0.0) & Experiment.id.not_in(rented),
                (Job.attempt > 1) & Experiment.id.not_in(rented),
            ),
        )
        .distinct()
    )
    if campaign_id is not None:
        query = query.where(Experiment.campaign_id == campaign_id)
    rows = session.execute(query).all()
    signs = signs_of(session, [row.id for row in rows]) if rows else {}
    unfinished_s, broken_off = 0.0, list[float]()
    for row in rows:
        took = attempts_s(signs.get(row.id, ()))
        if row.finished_at is None:
            unfinished_s += sum(took)
        else:
            broken_off += took[:-1] if row.wall_s else took
    return UntimedView(unfinished_s=unfinished_s, attempts=len(broken_off), broken_off_s=sum(broken_off))


def signs_of(session: Session, experiment_ids: Sequence[int]) -> dict[int, list[Sign]]:
    """When attempts of these experiments were heard of, by experiment; two statements."""
    named: dict[str | None, int] = {format_label(Noun.EXPERIMENT, each): each for each in experiment_ids}
    found: dict[int, list[Sign]] = defaultdict(list)
    told = select(Event.subject, Event.at, Event.kind).where(
        Event.subject.in_(named), Event.kind.in_([each.value for each in _SIGNS])
    )
    for subject, at, kind in session.execute(told):
        found[named[subject]].append((at, kind == EventKind.JOB_CLAIMED))
    held = (
        select(Job.experiment_id, Worker.heartbeat_at)
        .join(Worker, Worker.name == Job.owner)
        .where(
            Job.experiment_id.in_(experiment_ids),
            Job.state == JobState.RUNNING,
            Worker.heartbeat_at >= Job.started_at,
        )
    )
    for number, at in session.execute(held):
        if number is not None:
            found[number].append((at, False))
    return found

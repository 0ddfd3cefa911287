"""How long a whole job on a rented machine may take, beside the limits of its stages, so that its price is
bounded by what it is expected to need. Pure but for a look at the database.

    limit = max(LEAST_LIMIT_S, FACTOR × expected) + the limits of the builds it asks for,
            and at least GROWTH × the longest limit that ended one of the newest runs of the kind

where *expected* is the longer of what all of its plan is expected to take and the median of the last such
runs. A job about which nothing is known has the limits of its stages alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from sqlalchemy.orm import Session

from db.remote_runs import past_seconds, reached_limit_s
from experiments.job.context import DEFAULT_STAGE_LIMITS_S
from experiments.job.longest import builds_s
from experiments.job.spec import AnyJob

PlannedSeconds = Callable[[Session, AnyJob, str], float | None]
"""What a job takes on a target if all of its plan is measured, seconds, without builds; None: not known."""

FACTOR = 2.0
"""How many times what is expected a job may take: a machine that is new and busy, files that are fetched."""

LEAST_LIMIT_S = 1800.0
"""The shortest limit: what a first start fetches and compiles is not in a plan."""

GROWTH = 2.0
"""How much longer the next attempt of a kind may take than the one that its limit ended."""

FEWEST_RUNS = 3
"""Runs that a median is taken of."""

NEWEST_RUNS = 20
"""The newest runs of the kind that are looked at."""


def unplanned(session: Session, spec: AnyJob, target: str) -> float | None:
    """What is planned of a job where nobody tells."""
    return None


def limit_s(
    planned_s: float | None, took_s: Sequence[float], reached_s: float | None, building_s: float
) -> float | None:
    """The limit of a whole job, seconds; None where neither its plan nor runs like it tell of it. Pure."""
    known = [each for each in (planned_s, median(took_s) if len(took_s) >= FEWEST_RUNS else None) if each]
    if not known:
        return None
    return max(max(LEAST_LIMIT_S, FACTOR * max(known)) + building_s, GROWTH * (reached_s or 0.0))


def limit_by_history(session: Session, spec: AnyJob, target: str, planned: PlannedSeconds) -> float | None:
    """The limit of a job on a target, by its plan and what ran there."""
    return limit_s(
        planned(session, spec, target),
        past_seconds(session, target, spec.kind, NEWEST_RUNS),
        reached_limit_s(session, target, spec.kind, NEWEST_RUNS),
        builds_s(spec, DEFAULT_STAGE_LIMITS_S),
    )


def limit_before_any(spec: AnyJob, planned_s: float | None) -> float | None:
    """The same where nothing ran yet."""
    return limit_s(planned_s, (), None, builds_s(spec, DEFAULT_STAGE_LIMITS_S))

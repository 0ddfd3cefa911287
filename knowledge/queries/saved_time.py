"""What stopping early saved over a campaign: seconds spent on timed experiments against their full plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.models import Experiment, Verdict


def saved_time(session: Session, campaign_id: int) -> dict[str, Any]:
    """The saving over the verdicts of a campaign; see `saving`."""
    query = (
        select(Verdict.judge)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(Experiment.campaign_id == campaign_id)
    )
    return saving(judge.get("details") for judge in session.scalars(query))


def saving(details: Iterable[object]) -> dict[str, Any]:
    """Sum what verdicts' details tell: seconds of launches spent, those of the whole plans at the same cost a
    pair, and the difference.

    `experiments` are those that tell both: a scored claim, or one that ended before anything was timed, has
    no plan in seconds, and counts under `unknown`.
    """
    spent, planned, known, unknown = 0.0, 0.0, 0, 0
    for each in details:
        told = each if isinstance(each, Mapping) else {}
        one, whole = told.get("spent_s"), told.get("planned_s")
        if isinstance(one, int | float) and isinstance(whole, int | float):
            spent, planned, known = spent + one, planned + whole, known + 1
        else:
            unknown += 1
    return {
        "experiments": known,
        "unknown": unknown,
        "spent_s": round(spent, 1),
        "planned_s": round(planned, 1),
        "saved_s": round(planned - spent, 1),
    }


def saved_s(session: Session, campaign_id: int) -> float:
    """The seconds that `saved_time` tells, summed by the database; for pages that are read often."""
    spent, planned = (Verdict.judge["details", name].as_float() for name in ("spent_s", "planned_s"))
    query = (
        select(func.coalesce(func.sum(planned - spent), 0.0))
        .select_from(Verdict)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(Experiment.campaign_id == campaign_id)
    )
    return float(session.scalars(query).one())

"""What stopping early saved: seconds spent on timed experiments against their full plans.

One rule for the summary, the story, the report, the pages and the last object of a run: every verdict that
tells both counts, those of what was run once more too, as they do in the time that was spent.
"""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from configs.quantities import format_duration
from db.models import Experiment, Verdict
from knowledge.figures import counted
from knowledge.queries.view import View

LEAST_SAVED_S = 1.0
"""Seconds from which it is said that stopping early saved any: below, it is rounding."""


class SavedView(View):
    """Seconds of launches spent, those of the whole plans at the same cost a pair, and the difference, summed
    over `experiments`, those whose verdicts tell both; `again` of them ran something once more. `unknown`
    counts the other verdicts: a scored claim, or one that ended before anything was timed, has no plan in
    seconds."""

    experiments: int = 0
    again: int = 0
    unknown: int = 0
    spent_s: float = 0.0
    planned_s: float = 0.0
    saved_s: float = 0.0


def saved_time(session: Session, campaign_id: int | None) -> SavedView:
    """The saving over the verdicts of a campaign, or of all; one statement."""
    spent, planned = (Verdict.judge["details", name].as_float() for name in ("spent_s", "planned_s"))
    both = planned + spent
    query = select(
        func.count(both),
        func.count(both).filter(Experiment.reproduces_experiment_id.is_not(None)),
        func.count(),
        func.coalesce(func.sum(spent + 0 * planned), 0.0),
        func.coalesce(func.sum(planned + 0 * spent), 0.0),
    ).join(Experiment, Experiment.id == Verdict.experiment_id)
    if campaign_id is not None:
        query = query.where(Experiment.campaign_id == campaign_id)
    known, again, verdicts, spent_s, planned_s = session.execute(query).one()
    return SavedView(
        experiments=known,
        again=again,
        unknown=verdicts - known,
        spent_s=round(spent_s, 1),
        planned_s=round(planned_s, 1),
        saved_s=round(planned_s - spent_s, 1),
    )


def saved_sentence(saved: SavedView) -> str | None:
    """What stopping early saved, of how much, over how many; None where no verdict tells it."""
    if not saved.experiments:
        return None
    much = format_duration(saved.saved_s) if saved.saved_s >= LEAST_SAVED_S else "nothing"
    again = f", {saved.again} of them run once more" if saved.again else ""
    return (
        f"Stopping early saved {much} of {format_duration(saved.planned_s)} of planned launch time, over "
        f"{counted(saved.experiments, 'timed experiment')}{again}."
    )

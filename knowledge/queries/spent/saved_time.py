"""What stopping early saved: seconds spent on timed experiments against their full plans.

One rule for the summary, the story, the report, the pages and the last object of a run: every verdict that
tells both counts, those of what was run once more too, as they do in the time that was spent. Older verdicts
tell the time of launches, where those that load side by side count each: they are added to none that goes by
the clock, and where there are no others, their sum is told as what it is.
"""

from __future__ import annotations

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from configs.quantities import format_duration
from db.models import Experiment, Verdict
from experiments.measurement.judging import BY_CLOCK
from knowledge.figures import counted
from knowledge.queries.view import View

LEAST_SAVED_S = 1.0
"""Seconds from which it is said that stopping early saved any: below, it is rounding."""

LAUNCH_TIME = "launch time, in which launches side by side count each"
"""What the seconds of older verdicts are, in words."""


class SavedView(View):
    """Seconds of measuring spent, those of the whole plans at the same cost a pair, and the difference,
    summed over `experiments`, those whose verdicts tell both; `again` of them ran something once more.
    `by_clock` says that these are seconds on the clock, without the `older` ones, whose verdicts tell the
    time of launches; else they are of those alone. `unknown` counts the other verdicts: a scored claim, or
    one that ended before anything was timed, has no plan in seconds."""

    experiments: int = 0
    again: int = 0
    older: int = 0
    unknown: int = 0
    by_clock: bool = False
    spent_s: float = 0.0
    planned_s: float = 0.0
    saved_s: float = 0.0


def saved_time(session: Session, campaign_id: int | None) -> SavedView:
    """The saving over the verdicts of a campaign, or of all; two statements."""
    spent, planned = (Verdict.judge["details", name].as_float() for name in ("spent_s", "planned_s"))
    by_clock = func.coalesce(Verdict.judge["details", BY_CLOCK].as_boolean(), False).label("by_clock")
    again = func.count().filter(Experiment.reproduces_experiment_id.is_not(None))
    told = (
        select(by_clock, func.count(), again, func.sum(spent), func.sum(planned))
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(spent.is_not(None), planned.is_not(None))
        .group_by(text("by_clock"))
    )
    verdicts = select(func.count()).join_from(Verdict, Experiment, Experiment.id == Verdict.experiment_id)
    if campaign_id is not None:
        told = told.where(Experiment.campaign_id == campaign_id)
        verdicts = verdicts.where(Experiment.campaign_id == campaign_id)
    found = {bool(way): tuple(sums) for way, *sums in session.execute(told)}
    goes_by_clock = True in found
    known, known_again, spent_s, planned_s = found.get(goes_by_clock, (0, 0, 0.0, 0.0))
    older = found[False][0] if goes_by_clock and False in found else 0
    return SavedView(
        experiments=known,
        again=known_again,
        older=older,
        unknown=(session.scalar(verdicts) or 0) - known - older,
        by_clock=goes_by_clock,
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
    planned = format_duration(saved.planned_s)
    over = f"{counted(saved.experiments, 'timed experiment')}{again}"
    if not saved.by_clock:
        return f"Stopping early saved {much} of {planned} of planned {LAUNCH_TIME}, over {over}."
    older = f"; {counted(saved.older, 'older one')} {'tells' if saved.older == 1 else 'tell'} {LAUNCH_TIME}"
    return (
        f"Stopping early saved {much} by the clock, of an estimated {planned} for the whole plans of {over}"
        f"{older if saved.older else ''}."
    )

"""Now: what a campaign does at this moment, what it found, and what happened since somebody last looked."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from datetime import datetime
from math import log10

from pydantic import Field
from sqlalchemy.orm import Session

from dashboard.charts.glyph import Glyph, Scale, glyph, scale_of
from dashboard.charts.waterfall import Bar, Segment, ends, place, step
from dashboard.page import Filters, Ground, Page, Request
from dashboard.pages.now_words import sentence
from dashboard.pages.pareto import unit_of
from dashboard.rendering.figures import unit
from db.event_kinds import EventKind
from db.states import VerdictOutcome
from experiments.space.configuration import Change
from knowledge.change_words import change_in_short
from knowledge.doubts import doubt_words
from knowledge.figures import listed, number
from knowledge.going_on import helped_by_time, is_exhausted, lacks_time
from knowledge.queries.claims.hypotheses import HypothesisRow
from knowledge.queries.log import EventView
from knowledge.queries.present.now import NowView, now_view
from knowledge.queries.present.now_best import BestView
from knowledge.queries.view import ChangeView, EffectView

LARGEST_ID = 2**63 - 1

MARKS: dict[str, tuple[str, str]] = {
    EventKind.STAGE_STARTED.value: ("testing", "Testing"),
    EventKind.QUEUE_RANKED.value: ("move", "Moved"),
    EventKind.FINDING_ADDED.value: ("finding", "Finding"),
    EventKind.FINDING_CHANGED.value: ("finding", "Finding"),
    EventKind.CAMPAIGN_PAUSED.value: ("approval", "Paused"),
    EventKind.CAMPAIGN_WAITS.value: ("approval", "Waits"),
    EventKind.CAMPAIGN_DEVICE_OUT.value: ("infeasible", "Left out"),
    EventKind.CAMPAIGN_DEVICE_RESTS.value: ("approval", "Rests"),
    EventKind.CAMPAIGN_DEVICE_BACK.value: ("testing", "Back"),
    EventKind.CAMPAIGN_BEST.value: ("up", "Better"),
    EventKind.DIRECTIVE_GIVEN.value: ("pin", "Steered"),
    EventKind.DIRECTIVE_LIFTED.value: ("pin", "Steered"),
    EventKind.QUESTION_SETTLED.value: ("finding", "Answered"),
    EventKind.EXPERIMENT_FAILED.value: ("infeasible", "Failed"),
    EventKind.EXPERIMENT_CONFOUNDED.value: ("confounded", "Confounded"),
    EventKind.EXPERIMENT_REPRODUCED.value: ("same", "Run again"),
    EventKind.JOB_FAILED.value: ("infeasible", "Failed"),
    EventKind.DEVICE_LOST.value: ("infeasible", "Lost"),
    EventKind.WORKER_LOST.value: ("infeasible", "Lost"),
    EventKind.WORKER_MISSING.value: ("approval", "Waits"),
}
"""Symbols of kinds of events and what they are called; a verdict has that of its outcome."""


class NowFilters(Filters):
    """Which campaign, and since which event a digest is told."""

    campaign: str | None = Field(
        default=None, max_length=32, description="A campaign's label; the newest if not given."
    )
    since: int | None = Field(
        default=None, ge=0, le=LARGEST_ID, description="Tell what happened after this event."
    )


class Rows:
    """The rows of the waterfall of a best: where the bars of each lie."""

    def __init__(self, best: BestView) -> None:
        self.best = best
        self.most_ms = max([best.baseline_ms, best.best_ms, *(each.after_ms for each in best.steps)])

    @property
    def baseline(self) -> tuple[Bar, ...]:
        """The baseline: its floor, and its overhead by part where it is known."""
        best = self.best
        if best.floor is None:
            return ends([Segment(best.baseline_ms, "w-base", "")], self.most_ms)
        floor = Segment(min(best.floor.ms, best.baseline_ms), "w-floor", f"floor {number(best.floor.ms)}")
        parts = [
            Segment(each.ms, f"w-o{place}", f"{each.part} {number(each.ms)}")
            for place, each in enumerate(best.overhead, start=1)
        ]
        rest = [Segment(best.baseline_ms - floor.ms, "w-base", "above its floor")]
        return ends([floor, *(parts or rest)], self.most_ms)

    @property
    def last(self) -> tuple[Bar, ...]:
        """The best: its floor, and what lies above it, by part where it was profiled."""
        best = self.best
        if best.best_floor is None:
            return ends([Segment(best.best_ms, "w-cand", "")], self.most_ms)
        floor_ms = min(best.best_floor.ms, best.best_ms)
        above = [
            Segment(each.ms, f"w-o{place}", f"{each.part} {number(each.ms)}")
            for place, each in enumerate(best.best_overhead, start=1)
        ] or [Segment(best.best_ms - floor_ms, "w-cand", f"{number(best.best_ms - floor_ms)} above it")]
        return ends([Segment(floor_ms, "w-floor", f"floor {number(floor_ms)}"), *above], self.most_ms)

    @property
    def steps(self) -> tuple[tuple[Bar, ...], ...]:
        """What each step won."""
        return tuple(step(each.before_ms, each.after_ms, self.most_ms) for each in self.best.steps)

    def at(self, ms: float) -> float:
        """Where a time lies."""
        return place(ms, self.most_ms)


class NowShown(NowView):
    """What a campaign does and came to, with the page's sentence."""

    lead: str
    rest: str

    @property
    def helped_by_time(self) -> bool:
        """Whether it would go on if it were taken up again, where it has ended."""
        return self.campaign is not None and helped_by_time(self.campaign.stopped_because)

    @property
    def lacks_time(self) -> bool:
        """Whether it needs more time for that."""
        if self.campaign is None or self.budget is None:
            return False
        return lacks_time(self.campaign.stopped_because, self.budget.spent_s, self.budget.whole_s)

    @property
    def is_exhausted(self) -> bool:
        """Whether it ended for want of a hypothesis that is worth a test."""
        return self.campaign is not None and is_exhausted(self.campaign.stopped_because)

    @property
    def best_doubt(self) -> str | None:
        """What speaks by now against the test that made the best; of both the fresh run is told."""
        if self.against_best is not None:
            return doubt_words((), (self.against_best.experiment,))
        return listed(list(self.best_in_doubt)) if self.best_in_doubt else None

    @property
    def marks(self) -> Scale:
        """The scale of the glyphs of what comes next."""
        return scale_of(
            (each for each in (row.predictions.shown for row in self.next) if each is not None),
            max((row.min_effect for row in self.next), default=0.0),
        )

    @property
    def rows(self) -> Rows | None:
        """The rows of the waterfall."""
        return None if self.best is None else Rows(self.best)

    @property
    def per(self) -> str:
        """What the times of the best are of: `per token`."""
        return "" if self.best is None else unit_of(self.best.metric).removeprefix("ms ")

    def glyph(self, effect: EffectView, min_effect: float, scale: Scale) -> Glyph:
        """The marks of an effect."""
        return glyph(effect, min_effect, scale)

    def scale(self, effect: EffectView, min_effect: float) -> Scale:
        """A scale for one effect alone."""
        return scale_of((effect,), min_effect)

    def speedup(self, effect: EffectView | None) -> tuple[float, float | None, float | None] | None:
        """A change of a time as a speed-up with its interval; None for one of anything else."""
        if effect is None or not effect.metric.endswith("_ms"):
            return None
        low, high = (None if each is None else 1 / (1 + each) for each in (effect.high, effect.low))
        return 1 / (1 + effect.relative), low, high

    def measure_of(self, rows: Iterable[HypothesisRow], of_time: str) -> str:
        """What the figures beside rows are: `of_time` if all are of a time, else of what each asks."""
        measured = [row.measured.metric for row in rows if row.measured is not None]
        return of_time if all(metric.endswith("_ms") for metric in measured) else "change of what was asked"

    def words(self, change: tuple[ChangeView, ...]) -> str:
        """A change in a few words."""
        return change_in_short([Change(each.knob, each.before, each.after) for each in change])

    def size(self, count: float) -> str:
        """A number of bytes, or of bytes a second, in decimal units."""
        power = min(3, max(0, int(log10(count)) // 3)) if count >= 1 else 0
        return unit(count / 1000**power, ("B", "kB", "MB", "GB")[power])

    def mark(self, event: EventView) -> tuple[str, str]:
        """The symbol of an event and what it is called."""
        outcome = (event.data or {}).get("outcome")
        if event.kind == EventKind.EXPERIMENT_JUDGED and outcome in set(VerdictOutcome):
            return str(outcome), str(outcome).capitalize()
        return MARKS.get(event.kind, ("queued", "Told"))


def read(session: Session, request: Request[NowFilters], ground: Ground) -> NowShown:
    """Read the campaign that the filters name; today is the day of this machine."""
    asked = request.filters
    today = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    view = now_view(session, asked.campaign, asked.since, today)
    lead, rest = sentence(view)
    return NowShown(**dict(view), lead=lead, rest=rest)


def command(request: Request[NowFilters]) -> str:
    """The same on the command line."""
    asked = request.filters.campaign
    return "autoinfer summary" + (f" --campaign {shlex.quote(asked)}" if asked else "")


PAGE = Page(
    name="now",
    title="Now",
    path="/",
    filters=NowFilters,
    shows=NowShown,
    read=read,
    command=command,
)

"""Latency against quality: every configuration of a campaign that was timed and scored.

Latency drifts from launch to launch, so a configuration's is that of the baseline times its ratios, each
measured side by side in one experiment: of the candidate against the experiment's control, and of that
control in turn, down to the baseline. On the campaign's own metric a ratio is the verdict's with its
interval; on another it is the mean over the experiment's pairs of launches, with Student's interval (95 %,
for this look alone). Intervals of a chain are combined in quadrature. Confounded verdicts give no ratio,
and neither does what was run once more: a rerun or the check of a recipe asks whether a test holds, which is
told beside it, and a run on another target is of other hardware. On the campaign's own metric the best stands
where everything else that tells of it has it: by the test that made it, at the time that its arm took beside
the baseline there. Its speed-up is of that metric, and divides no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from weakref import WeakKeyDictionary

import numpy as np
from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.orm import Session

from db.event_kinds import EventKind
from db.events import of_kinds
from db.labels import Noun, format_label
from db.models import Campaign, Configuration, Event, Experiment, Hypothesis, Verdict
from db.models.base import JsonObject
from db.states import ExperimentKind, VerdictOutcome
from experiments.measurement.evidence import Metric
from knowledge.figures import DEFAULT_METRIC
from knowledge.front import bins, front
from knowledge.latency_only import latency_only
from knowledge.queries.baseline_time import baseline_time_ms
from knowledge.queries.pareto_ratios import Placed, Ratio, chained, launch_ratios
from knowledge.queries.present.now_floor import FloorView, PromptFloorView, floor_of, profile_of
from knowledge.queries.present.now_prompt import FIRST_TOKEN, baseline_prompt_floor
from knowledge.queries.view import ChangeView, View, changes_between
from knowledge.stored import metric_of, number

MOST_POINTS = 500
"""Points beside the front."""


class FrontRow(View):
    """A configuration that none beats in both: `latency_ms` and the relative change of bits per byte, each
    with its interval where one is known; `experiment` is the test that places it, None for the baseline."""

    experiment: str | None
    claim: str | None
    change: tuple[ChangeView, ...]
    outcome: VerdictOutcome | None
    latency_ms: float
    low_ms: float | None
    high_ms: float | None
    quality: float
    quality_low: float | None
    quality_high: float | None
    within_limit: bool
    is_baseline: bool
    is_best: bool


class PointView(View):
    """Configurations that others beat: one, or `count` that lie together, told by their mean and by the
    experiment of the fastest of them."""

    experiment: str
    latency_ms: float
    quality: float
    count: int


class ParetoView(View):
    """The front, by rising latency, and what lies behind it; `quality_limit` is the largest relative change
    of bits per byte that is allowed. `unplaced` counts the tests that were judged but not timed or not
    scored. `campaign` is None where there is none; `latency_only`: its weights are made up, so that
    no quality is known and nothing has a place."""

    campaign: str | None
    latency_only: bool
    metric: str
    concurrency: int | None
    quality_limit: float | None
    baseline_ms: float | None
    floor: FloorView | PromptFloorView | None
    front: tuple[FrontRow, ...]
    points: tuple[PointView, ...]
    configurations: int
    unplaced: int


NOTHING = ParetoView(
    campaign=None,
    latency_only=False,
    metric=DEFAULT_METRIC,
    concurrency=None,
    quality_limit=None,
    baseline_ms=None,
    floor=None,
    front=(),
    points=(),
    configurations=0,
    unplaced=0,
)
"""The view where there is no campaign."""


@dataclass(frozen=True)
class _Timed:
    """A configuration over the baseline, and its time."""

    placed: Placed
    latency_ms: float

    @property
    def label(self) -> str:
        """The test that places it."""
        return format_label(Noun.EXPERIMENT, self.placed.experiment_id)


_Mark = tuple[int | None, int | None, int | None]

_KNOWN: WeakKeyDictionary[Engine | Connection, dict[tuple[int, str | None], tuple[_Mark, ParetoView]]] = (
    WeakKeyDictionary()
)
"""By database, campaign and metric: the view, and what it was made of."""


def pareto(session: Session, campaign_id: int, metric: str | None = None) -> ParetoView:
    """Latency by `metric` (the campaign's own if None) against bits per byte.

    Verdicts are never changed, so a view is made anew only once there is another verdict, another best or
    another baseline: twelve statements at most, and two where it is known.
    """
    campaign = session.get_one(Campaign, campaign_id)
    mark = (
        session.scalar(select(func.max(Verdict.id))),
        campaign.best_experiment_id,
        campaign.baseline_configuration_id,
    )
    known = _KNOWN.setdefault(session.get_bind(), {})
    key = campaign_id, metric
    if key not in known or known[key][0] != mark:
        known[key] = mark, _made(session, campaign, metric)
    return known[key][1]


def _made(session: Session, campaign: Campaign, metric: str | None) -> ParetoView:
    campaign_id = campaign.id
    objective = metric_of(campaign.objective)
    shown = objective if metric is None else metric
    ratios = judged_ratios(session, campaign_id, objective)
    judged = len(ratios)
    if shown != objective:
        ratios = launch_ratios(session, campaign_id, shown, ratios)
    told = _told(session, campaign_id)
    baseline_ms = _baseline_ms(session, campaign, shown, told)
    baseline = campaign.baseline_configuration_id
    concurrency = number(campaign.objective.get("concurrency"))
    limit = number(campaign.limits.get("bits_per_byte"))
    empty = NOTHING.model_copy(
        update={
            "campaign": format_label(Noun.CAMPAIGN, campaign_id),
            "latency_only": latency_only(campaign.spec),
            "metric": shown,
            "concurrency": None if concurrency is None else int(concurrency),
            "quality_limit": limit,
            "baseline_ms": baseline_ms,
            "unplaced": judged,
        }
    )
    if baseline is None or baseline_ms is None or empty.latency_only:
        return empty
    best_id = campaign.best_experiment_id
    found = chained(ratios, baseline, best_id).values()
    best_ms = _best_ms(told, shown, baseline_ms) if shown == objective else None
    placed = []
    for each in found:
        own_ms = best_ms if each.experiment_id == best_id else None
        if each.quality is not None:
            placed.append(_Timed(each, own_ms or baseline_ms * exp(each.log_ratio)))
    x = np.array([baseline_ms, *(each.latency_ms for each in placed)])
    y = np.array([0.0, *(each.placed.quality or 0.0 for each in placed)])
    on_front = front(x, y)
    behind = np.setdiff1d(np.arange(1, len(x)), on_front)
    chosen = [None if place == 0 else placed[place - 1] for place in on_front.tolist()]
    return empty.model_copy(
        update={
            "floor": _floor(session, campaign, shown),
            "front": _rows(session, campaign, baseline_ms, limit, chosen),
            "points": tuple(
                PointView(
                    experiment=placed[behind[each.first] - 1].label,
                    latency_ms=each.x,
                    quality=each.y,
                    count=each.count,
                )
                for each in bins(x[behind], y[behind], MOST_POINTS)
            ),
            "configurations": len(placed),
            "unplaced": judged - sum(each.placed.experiments for each in placed),
        }
    )


def _floor(session: Session, campaign: Campaign, metric: str) -> FloorView | PromptFloorView | None:
    """The least that physics allows the baseline on `metric`: of TPOT by its decode step, of TTFT by its lone
    prompt; None of any other metric, and where it is not known."""
    if metric == Metric.TPOT_MS.value:
        profile = profile_of(session, campaign.id)
        return floor_of(profile.parts, profile.bandwidth_bytes_per_s)
    return baseline_prompt_floor(session, campaign) if metric == FIRST_TOKEN else None


def judged_ratios(session: Session, campaign_id: int, objective: str) -> list[Ratio]:
    """What the verdicts of tests say of each candidate against its control, oldest first; one statement.

    What was run once more is left out: reruns, checks of recipes, and other targets.
    """
    quality = Verdict.quality["bits_per_byte_relative"]
    query = (
        select(
            Experiment.id,
            Experiment.control_configuration_id,
            Experiment.candidate_configuration_id,
            Verdict.effect_log,
            Verdict.interval_low_log,
            Verdict.interval_high_log,
            Verdict.launches,
            quality["difference"].as_float(),
            quality["low"].as_float(),
            quality["high"].as_float(),
            Verdict.judge["details"]["metric"].as_string(),
        )
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .where(
            Experiment.campaign_id == campaign_id,
            Experiment.kind == ExperimentKind.TEST,
            Experiment.candidate_configuration_id.is_not(None),
            Verdict.outcome != VerdictOutcome.CONFOUNDED,
        )
        .order_by(Experiment.id)
    )
    found = []
    for row in session.execute(query):
        effect = row[3:6] if row[10] in (None, objective) else (None, None, None)
        found.append(
            Ratio(row[0], row[1], row[2], effect[0], effect[1], effect[2], row[6], row[7], row[8], row[9])
        )
    return found


def _told(session: Session, campaign_id: int) -> Mapping[str, JsonObject]:
    """The data of the last events that told the baseline and the best; one statement."""
    kinds = (EventKind.CAMPAIGN_BASELINE, EventKind.CAMPAIGN_BEST)
    newest = select(func.max(Event.id)).where(of_kinds(kinds, campaign_id)).group_by(Event.kind)
    return {
        kind: data or {}
        for kind, data in session.execute(select(Event.kind, Event.data).where(Event.id.in_(newest)))
    }


def _beside(told: Mapping[str, JsonObject], metric: str) -> tuple[float, float] | None:
    """What baseline and best took side by side on `metric`; None where no event tells both."""
    best = told.get(EventKind.CAMPAIGN_BEST.value, {})
    control, candidate = number(best.get(f"control_{metric}")), number(best.get(metric))
    if best.get("speedup_basis") != best.get("experiment") or not control or not candidate:
        return None
    return control, candidate


def _best_ms(told: Mapping[str, JsonObject], metric: str, baseline_ms: float) -> float | None:
    """The best's time on the campaign's own metric as everything else tells it: that of its arm where it ran
    beside the baseline, else the baseline's over its speed-up; None where no best was told."""
    beside, speedup = (
        _beside(told, metric),
        number(told.get(EventKind.CAMPAIGN_BEST.value, {}).get("speedup")),
    )
    if beside is not None:
        return beside[1]
    return baseline_ms / speedup if speedup else None


def _baseline_ms(
    session: Session, campaign: Campaign, metric: str, told: Mapping[str, JsonObject]
) -> float | None:
    """As the best was measured side by side with it, else as its own event tells, else of its launches."""
    beside = _beside(told, metric)
    if beside is not None:
        return beside[0]
    baseline = told.get(EventKind.CAMPAIGN_BASELINE.value, {}).get("baseline")
    return baseline_time_ms(session, campaign, metric, baseline if isinstance(baseline, dict) else None)


def _rows(
    session: Session,
    campaign: Campaign,
    baseline_ms: float,
    limit: float | None,
    chosen: Sequence[_Timed | None],
) -> tuple[FrontRow, ...]:
    """The front's rows with what they change; two statements."""
    ids = [each.placed.experiment_id for each in chosen if each is not None]
    about = {
        row[0]: row[1:]
        for row in session.execute(
            select(Experiment.id, Hypothesis.claim, Verdict.outcome, Configuration.knobs)
            .join(Verdict, Verdict.experiment_id == Experiment.id)
            .join(Configuration, Configuration.id == Experiment.candidate_configuration_id)
            .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
            .where(Experiment.id.in_(ids))
        )
    }
    baseline = session.get(Configuration, campaign.baseline_configuration_id)
    knobs = None if baseline is None else baseline.knobs
    best = session.scalar(
        select(Experiment.candidate_configuration_id).where(Experiment.id == campaign.best_experiment_id)
    )
    rows = []
    for timed in chosen:
        if timed is None:
            rows.append(_baseline_row(baseline_ms))
            continue
        each = timed.placed
        claim, outcome, changed = about[each.experiment_id]
        quality = each.quality or 0.0
        rows.append(
            FrontRow(
                experiment=timed.label,
                claim=claim,
                change=changes_between(knobs, changed),
                outcome=outcome,
                latency_ms=timed.latency_ms,
                low_ms=None if each.low_log is None else baseline_ms * exp(each.low_log),
                high_ms=None if each.high_log is None else baseline_ms * exp(each.high_log),
                quality=quality,
                quality_low=each.quality_low,
                quality_high=each.quality_high,
                within_limit=limit is None or quality <= limit,
                is_baseline=False,
                is_best=each.configuration_id == best,
            )
        )
    return tuple(rows)


def _baseline_row(baseline_ms: float) -> FrontRow:
    return FrontRow(
        experiment=None,
        claim=None,
        change=(),
        outcome=None,
        latency_ms=baseline_ms,
        low_ms=None,
        high_ms=None,
        quality=0.0,
        quality_low=None,
        quality_high=None,
        within_limit=True,
        is_baseline=True,
        is_best=False,
    )

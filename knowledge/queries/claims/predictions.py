"""Predicted against measured: what was said before a test and what the test found."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Experiment, Hypothesis, Verdict
from db.models.base import JsonObject
from db.states import VerdictOutcome
from knowledge.figures import SHARES
from knowledge.queries.claims.hypotheses import Asked, hypothesis_label
from knowledge.queries.view import EffectView, View, effect_view, prediction_view

MOST_POINTS = 500
"""Points given at most, the newest."""


class PredictedPoint(View):
    """A hypothesis with what was predicted (80 % interval) and what its own test measured; `latency_only`: on
    made-up weights."""

    hypothesis: str
    claim: str
    experiment: str
    outcome: VerdictOutcome
    predicted: EffectView
    measured: EffectView
    latency_only: bool

    @property
    def inside(self) -> bool:
        """Whether the measured effect lies within the predicted interval."""
        low, high = self.predicted.low, self.predicted.high
        return low is not None and high is not None and low <= self.measured.relative <= high


class PredictionsView(View):
    """The newest points, and how many of them lie `inside` their interval; `more` says that older ones were
    left out. Confounded ones are effects of more than what was predicted, and left out."""

    points: tuple[PredictedPoint, ...]
    total: int
    inside: int
    more: bool


def predictions(
    session: Session, asked: Asked, most: int = MOST_POINTS, in_points: bool = False
) -> PredictionsView:
    """Return the `most` newest points of the hypotheses asked for; one statement. Effects that are ratios;
    with `in_points` differences of shares too, which have another scale."""
    query = (
        select(
            Hypothesis.id,
            Hypothesis.claim,
            Hypothesis.metric,
            Hypothesis.prediction,
            Verdict.experiment_id,
            Verdict.outcome,
            Verdict.effect_log,
            Verdict.interval_low_log,
            Verdict.interval_high_log,
            Experiment.plan["latency_only"].as_boolean(),
        )
        .join_from(Verdict, Hypothesis, Hypothesis.id == Verdict.hypothesis_id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(
            *asked.conditions(),
            *(() if in_points else (Hypothesis.metric.not_in(SHARES),)),
            # The sum keeps a database from beginning with all experiments, and from sorting what it finds.
            (Experiment.reproduces_experiment_id + 0).is_(None),
            Verdict.effect_log.is_not(None),
            Verdict.outcome != VerdictOutcome.CONFOUNDED,
        )
        .order_by(Verdict.id.desc())
        .limit(most + 1)
    )
    rows = session.execute(query).all()
    points = tuple(point for row in rows[:most] if (point := _point(*row)) is not None)
    return PredictionsView(
        points=points,
        total=len(points),
        inside=sum(point.inside for point in points),
        more=len(rows) > most,
    )


def _point(
    number: int,
    claim: str,
    metric: str,
    prediction: JsonObject,
    experiment: int,
    outcome: VerdictOutcome,
    effect_log: float | None,
    low_log: float | None,
    high_log: float | None,
    latency_only: bool | None,
) -> PredictedPoint | None:
    """The point of a row; None where nothing was predicted in numbers."""
    predicted = prediction_view(prediction, metric)
    measured = effect_view(effect_log, low_log, high_log, metric)
    if predicted is None or measured is None:
        return None
    return PredictedPoint(
        hypothesis=hypothesis_label(number),
        claim=claim,
        experiment=format_label(Noun.EXPERIMENT, experiment),
        outcome=outcome,
        predicted=predicted,
        measured=measured,
        latency_only=bool(latency_only),
    )

"""What all views share: the base model, pages of rows, and effects."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict

from db.models import Verdict
from db.models.base import JsonObject
from db.states import HypothesisState
from experiments.space.configuration import Configuration, KnobValue
from knowledge.figures import DEFAULT_METRIC, in_scale
from knowledge.stored import verdict_metric

PREDICTION_LEVEL = 0.8
"""Share of outcomes that the interval of a prediction is meant to hold."""

PREDICTION_Z = 1.2815515655446004
"""Half-width of that interval in standard deviations: the normal quantile of 90 %."""

WAITING = (HypothesisState.QUEUED, HypothesisState.PROPOSED)
"""The states in which a hypothesis has a place in the queue and no test yet."""


class View(BaseModel):
    """A frozen row or page of the read side; times are aware, units stand in the names."""

    model_config = ConfigDict(frozen=True)


Row = TypeVar("Row", bound=View)


class Page(View, Generic[Row]):
    """Some rows of a list: `total` counts all that match, `offset` those passed over."""

    items: tuple[Row, ...]
    total: int
    limit: int
    offset: int


class EffectView(View):
    """A change of a metric, candidate against control; negative is better, whatever the metric.

    `relative` is −0.12 for 12 % less. For a metric that is a share (`task_correct`) it is a difference of
    shares: −0.02 is two points more. `low` and `high` are its interval, where one is known.
    """

    relative: float
    low: float | None = None
    high: float | None = None
    metric: str = DEFAULT_METRIC


class ChangeView(View):
    """One knob's difference; `None` stands for a knob that is not active."""

    knob: str
    before: KnobValue | None
    after: KnobValue | None


def effect_view(
    effect_log: float | None, low_log: float | None, high_log: float | None, metric: str = DEFAULT_METRIC
) -> EffectView | None:
    """Return a stored effect as changes of its metric; `None` when nothing was measured."""
    if effect_log is None:
        return None
    return EffectView(
        relative=in_scale(effect_log, metric),
        low=None if low_log is None else in_scale(low_log, metric),
        high=None if high_log is None else in_scale(high_log, metric),
        metric=metric,
    )


def verdict_effect(verdict: Verdict) -> EffectView | None:
    """Return the effect that a verdict found, on the metric that its judge says."""
    return effect_view(
        verdict.effect_log, verdict.interval_low_log, verdict.interval_high_log, verdict_metric(verdict)
    )


def prediction_view(prediction: JsonObject, metric: str) -> EffectView | None:
    """Return a prediction with its 80 % interval, from `log_ratio_mean` and `log_ratio_sd`."""
    interval = prediction_interval(prediction)
    return None if interval is None else effect_view(*interval, metric)


class Predictions(NamedTuple):
    """What is predicted of a hypothesis, as it is shown: `shown`, the newest, is drawn. `earlier` was when it
    was proposed, where its figures differ. `is_of_proposal`: `shown` itself was then, and it waits since."""

    shown: EffectView | None
    earlier: EffectView | None
    is_of_proposal: bool


def predictions(state: HypothesisState, predicted: EffectView | None, now: EffectView | None) -> Predictions:
    """Return which of its stored prediction and that of `predicted_now` is shown of a hypothesis."""
    if now is None:
        return Predictions(predicted, None, predicted is not None and state in WAITING)
    same = predicted is None or _figures(predicted) == _figures(now)
    return Predictions(now, None if same else predicted, is_of_proposal=False)


def _figures(effect: EffectView) -> tuple[float | None, ...]:
    """Its numbers as they are printed, in tenths of a per cent."""
    ends = (effect.relative, effect.low, effect.high)
    return tuple(None if each is None else round(100 * each, 1) for each in ends)


def predicted_now(state: HypothesisState, score: JsonObject | None, metric: str) -> EffectView | None:
    """Return what is predicted of a hypothesis by the belief that it was ranked by, with its 80 % interval.

    Of the campaign's objective that is against the best so far. `None` of one that does not wait, and where
    it was not ranked, or by a version that did not keep its belief.
    """
    return prediction_view(score, metric) if state in WAITING and score is not None else None


def prediction_interval(prediction: JsonObject) -> tuple[float, float, float] | None:
    """Return mean, low and high of a stored prediction's 80 % interval as natural logs."""
    mean, sd = prediction.get("log_ratio_mean"), prediction.get("log_ratio_sd")
    if not isinstance(mean, int | float) or not isinstance(sd, int | float):
        return None
    return mean, mean - PREDICTION_Z * sd, mean + PREDICTION_Z * sd


def changes_between(control: JsonObject | None, candidate: JsonObject | None) -> tuple[ChangeView, ...]:
    """Return what differs between two stored configurations, by knob name."""
    if control is None or candidate is None:
        return ()
    # Most knobs are alike; the few others are compared as configurations are.
    unlike = [knob for knob in control.keys() | candidate.keys() if not _alike(knob, control, candidate)]
    before, after = (
        Configuration.of({knob: knobs[knob] for knob in unlike if knob in knobs})
        for knobs in (control, candidate)
    )
    changes = before.changes_to(after)
    return tuple(ChangeView(knob=each.knob, before=each.before, after=each.after) for each in changes)


def _alike(knob: str, control: JsonObject, candidate: JsonObject) -> bool:
    before, after = control.get(knob), candidate.get(knob)
    return type(before) is type(after) and before == after

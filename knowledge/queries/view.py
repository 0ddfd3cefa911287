"""What all views share: the base model, pages of rows, and effects."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from db.models.base import JsonObject
from experiments.space.configuration import Configuration, KnobValue
from knowledge.figures import relative

PREDICTION_LEVEL = 0.8
"""Share of outcomes that the interval of a prediction is meant to hold."""

PREDICTION_Z = 1.2815515655446004
"""Half-width of that interval in standard deviations: the normal quantile of 90 %."""


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
    """A relative change of a metric, candidate against control: −0.12 is 12 % faster, whatever the metric.

    `low` and `high` are its interval, where one is known.
    """

    relative: float
    low: float | None = None
    high: float | None = None


class ChangeView(View):
    """One knob's difference; `None` stands for a knob that is not active."""

    knob: str
    before: KnobValue | None
    after: KnobValue | None


def effect_view(effect_log: float | None, low_log: float | None, high_log: float | None) -> EffectView | None:
    """Return a stored effect as relative changes; `None` when nothing was measured."""
    if effect_log is None:
        return None
    return EffectView(
        relative=relative(effect_log),
        low=None if low_log is None else relative(low_log),
        high=None if high_log is None else relative(high_log),
    )


def prediction_view(prediction: JsonObject) -> EffectView | None:
    """Return a prediction with its 80 % interval, from `log_ratio_mean` and `log_ratio_sd`."""
    interval = prediction_interval(prediction)
    return None if interval is None else effect_view(*interval)


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
    changes = Configuration.of(control).changes_to(Configuration.of(candidate))
    return tuple(ChangeView(knob=each.knob, before=each.before, after=each.after) for each in changes)

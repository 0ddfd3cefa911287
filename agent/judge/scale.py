"""The scale of a metric's effect: a log ratio, or a difference of shares. Pure."""

from __future__ import annotations

import math

from experiments.measurement.plan import StoppingPlan


def bound_of(plan: StoppingPlan) -> float:
    """The effect that `min_effect` asks for, in the metric's scale: what is below it is worth having."""
    return -plan.min_effect if plan.metric.is_share else math.log(1 - plan.min_effect)

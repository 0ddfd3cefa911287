"""Predictions that a user stated: about the best so far, and together with what is believed. Pure."""

from __future__ import annotations

import math

from experiments.measurement.plan import Prediction


def from_incumbent(own: Prediction, step: Prediction | None) -> Prediction:
    """The user's `own` prediction, which is about their control, as one about the incumbent: from that it is
    a `step` to their control, None where it is that."""
    if step is None:
        return own
    return Prediction(
        log_ratio_mean=own.log_ratio_mean + step.log_ratio_mean,
        log_ratio_sd=math.hypot(own.log_ratio_sd, step.log_ratio_sd),
    )


def combined(one: Prediction, other: Prediction) -> Prediction:
    """Two independent beliefs of one quantity as one: the product of normals."""
    weights = one.log_ratio_sd**-2, other.log_ratio_sd**-2
    mean = (weights[0] * one.log_ratio_mean + weights[1] * other.log_ratio_mean) / sum(weights)
    return Prediction(log_ratio_mean=mean, log_ratio_sd=sum(weights) ** -0.5)

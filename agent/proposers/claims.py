"""What goes with a claim on another metric than latency: its prediction, and what would refute it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from agent.proposers import draft
from configs.questions import is_latency
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Prediction
from knowledge.figures import margin

UNPREDICTED_SD_LOG = 0.5
"""Spread of a claim on bits or bytes that nobody predicted, natural log: a factor of 1.6 either way, which is
more than any quantization to 4 bits or more changes."""

UNPREDICTED_SD_SHARE = 0.2
"""The same for the share of items solved: 20 points either way."""

_REFUTED_IF: Mapping[Metric, str] = {
    Metric.STEP_WEIGHT_BYTES: (
        "A decode step of the candidate does not read at least {} fewer bytes of weights than one of the "
        "control, or the quality is worse than its margins with confidence."
    ),
    Metric.NLL_BITS: (
        "The whole interval of the change in bits against the control, over the same documents, lies above "
        "−{}."
    ),
    Metric.TASK_CORRECT: (
        "The whole interval of the gain against the control, over the same items, lies below {}."
    ),
}


def unpredicted(metric: Metric, min_effect: float) -> Prediction:
    """The prediction of a claim that nobody has a belief of: what it claims at least, with a wide spread."""
    if metric is Metric.TASK_CORRECT:
        return Prediction(log_ratio_mean=-min_effect, log_ratio_sd=UNPREDICTED_SD_SHARE)
    return Prediction(log_ratio_mean=math.log1p(-min_effect), log_ratio_sd=UNPREDICTED_SD_LOG)


def refuted_if(metric: Metric, min_effect: float) -> str:
    """What refutes a claim on this metric, as the judge decides it."""
    if is_latency(metric.value):
        return draft.refuted_if(min_effect)
    return _REFUTED_IF[metric].format(margin(min_effect, metric.value))

"""What the means of trials are off by, as far as their samples tell. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from agent.replay.port import Told
from agent.replay.request_effects import paired_sd_log

LEAST_SE_LOG = 0.005
"""Standard error of the log of a mean of one sample, or of samples that do not differ."""


def errors_log(told: Sequence[Told]) -> list[float]:
    """Standard errors of the logs of these trials' means, the first of which is trial 0.

    Beside trial 0, which was asked the same requests; its own is the root mean square of what the others say
    of it. Of what was not asked the same, and of trial 0 alone, that of samples that are independent."""
    first, *others = told
    sds = [paired_sd_log(each.samples_ms, first.samples_ms) if each.ran else None for each in others]
    beside = [sd**2 for sd in sds if sd is not None]
    own = math.sqrt(fmean(beside)) if beside else None
    return [_error_log(each, sd) for each, sd in zip(told, (own, *sds), strict=True)]


def _error_log(told: Told, sd_log: float | None) -> float:
    count = len(told.samples_ms)
    if sd_log is None:
        sd_log = stdev(told.samples_ms) / told.mean_ms if count > 1 else 0.0
    return max(LEAST_SE_LOG, sd_log / math.sqrt(max(1, count)))

"""What the timed requests of a launch took, by its samples. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import median

from experiments.measurement.evidence import LaunchRecord, Metric

MS_PER_S = 1e3


def requests_s(record: LaunchRecord) -> float:
    """Seconds of all blocks of a launch: requests over requests a second, where that was taken; else, in
    records from before it was, the sum of the requests' times, which were one after the other."""
    rates = {sample.block: sample.value for sample in record.of(Metric.REQUESTS_PER_S)}
    times_ms: defaultdict[int, list[float]] = defaultdict(list)
    for sample in record.of(Metric.E2EL_MS):
        times_ms[sample.block].append(sample.value)
    return math.fsum(
        len(times) / rates[block] if block in rates else math.fsum(times) / MS_PER_S
        for block, times in times_ms.items()
    )


def typical(record: LaunchRecord, metric: Metric) -> float | None:
    """The median of a launch's samples of a metric of time, in its unit; None without any.

    A block that the machine disturbed does not move it, as it would a mean. Tokens that came together have no
    gap between them, and count nothing.
    """
    values = [each for each in record.values(metric) if each > 0]
    return median(values) if values else None

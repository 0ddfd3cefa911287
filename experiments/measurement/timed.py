"""How long the timed requests of a launch took, by its samples. Pure."""

from __future__ import annotations

import math
from collections import defaultdict

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

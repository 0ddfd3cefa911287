"""The noise profile of a target: how much fresh launches of a configuration differ. Pure functions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from experiments.measurement.evidence import LaunchRecord, Metric, NoiseProfile


@dataclass(frozen=True)
class NoiseRow:
    """One launch as the noise profile sees it: its window and the mean natural log of the metric.

    A *window* is a stretch of one experiment in which launches of one configuration were measured under the
    same conditions; launches are compared within it alone, so that slow change of the machine is not taken
    for noise.
    """

    window: str
    log_mean: float


@dataclass(frozen=True)
class LaunchNoise:
    """Mean and standard deviation of the natural log of a metric within one launch, over `samples` values.

    `log_sd` is 0 when there is one sample.
    """

    log_mean: float
    log_sd: float
    samples: int


def launch_noise(launch: LaunchRecord, metric: Metric) -> LaunchNoise | None:
    """Summarise one launch; None when it holds no sample of `metric`."""
    logs = [math.log(value) for value in launch.values(metric) if value > 0]
    return summarise(logs) if logs else None


def summarise(logs: Sequence[float]) -> LaunchNoise:
    """Summarise the natural logs of one launch's samples; at least one."""
    return LaunchNoise(fmean(logs), stdev(logs) if len(logs) > 1 else 0.0, len(logs))


def noise_profile(target_key: str, metric: Metric, rows: Iterable[NoiseRow]) -> NoiseProfile:
    """Pool the variance between launches within windows.

    `launch_sd_log` = sqrt(sum of squared deviations from the window's mean / degrees of freedom), with
    degrees of freedom = launches − windows. A window of one launch adds to neither sum and only to the
    counts.
    """
    windows: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        windows[row.window].append(row.log_mean)
    launches = sum(map(len, windows.values()))
    freedom = launches - len(windows)
    if freedom == 0:
        return NoiseProfile(target_key, metric, launches, 0, None)
    squares = 0.0
    for means in windows.values():
        centre = fmean(means)
        squares += math.fsum((mean - centre) ** 2 for mean in means)
    return NoiseProfile(target_key, metric, launches, freedom, math.sqrt(squares / freedom))

"""The noise profile of a target: how much fresh launches of a configuration differ. Pure functions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, median, stdev

from configs.asked_over import HTTP, IN_ENGINE, AskedOver
from experiments.measurement.evidence import LaunchRecord, Metric, NoiseProfile
from experiments.measurement.location import hodges_lehmann


@dataclass(frozen=True)
class NoiseRow:
    """One launch as the noise profile sees it: its window and the centre of the natural log of the metric.

    A *window* is a stretch of one experiment in which launches of one configuration were measured under the
    same conditions; launches are compared within it alone, so that slow change of the machine is not taken
    for noise.
    """

    window: str
    log_centre: float


@dataclass(frozen=True)
class LaunchNoise:
    """Centre and standard deviation of the natural log of a metric within one launch, over `samples` values.

    `log_sd` is 0 when there is one sample.
    """

    log_centre: float
    log_sd: float
    samples: int


def launch_noise(launch: LaunchRecord, metric: Metric) -> LaunchNoise | None:
    """Summarise one launch; None when it holds no sample of `metric`.

    Its centre is the Hodges–Lehmann estimate over the medians of its blocks, as robust as the effect of a
    pair is, so that one block that the machine interrupted is not taken for a launch that differs.
    """
    blocks: defaultdict[int, list[float]] = defaultdict(list)
    for sample in launch.samples:
        if sample.metric == metric and sample.value > 0:
            blocks[sample.block].append(math.log(sample.value))
    logs = [log for block in blocks.values() for log in block]
    if not logs:
        return None
    centre = hodges_lehmann([median(block) for block in blocks.values()])
    return LaunchNoise(centre, stdev(logs) if len(logs) > 1 else 0.0, len(logs))


IN_TURN, OVER_HTTP = ", in turn", ", over HTTP"
"""What is added to the name of a target's profile: of launches that were up one at a time, and of launches
that were asked over HTTP."""


def noise_key(target_key: str, *, in_turn: bool, asked_over: AskedOver = IN_ENGINE) -> str:
    """The name under which a target's noise is kept: launches in turn lie minutes apart and vary otherwise
    than those side by side, and what a server and its client add varies too, so that none may speak for
    another."""
    return f"{target_key}{IN_TURN if in_turn else ''}{OVER_HTTP if asked_over == HTTP else ''}"


def noise_profile(target_key: str, metric: Metric, rows: Iterable[NoiseRow]) -> NoiseProfile:
    """Pool the variance between launches within windows.

    `launch_sd_log` = sqrt(sum of squared deviations from the window's mean / degrees of freedom), with
    degrees of freedom = launches − windows. A window of one launch adds to neither sum and only to the
    counts.
    """
    windows: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        windows[row.window].append(row.log_centre)
    launches = sum(map(len, windows.values()))
    freedom = launches - len(windows)
    if freedom == 0:
        return NoiseProfile(target_key, metric, launches, 0, None)
    squares = 0.0
    for means in windows.values():
        centre = fmean(means)
        squares += math.fsum((mean - centre) ** 2 for mean in means)
    return NoiseProfile(target_key, metric, launches, freedom, math.sqrt(squares / freedom))

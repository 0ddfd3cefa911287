"""How far launches of one configuration differ (A/A). Pure.

Where loads are measured side by side, a launch counts by its median TPOT over that of the control of its own
batch; elsewhere, where nothing stands beside it, by its median time of a step, and then two launches tell
what launches differ by only where they were measured together (`origins`): else they tell what machines do,
too. Loads with two launches or more tell the spread; that of a launch is pooled over them: the root of the
mean of their variances, in logarithms, which for small spreads are shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, exp, log, sqrt
from statistics import fmean, median

from agent.tables.cell import figures
from agent.tables.journal import Line, scope_of
from agent.tables.origins import Origin, with_origins
from agent.tables.trained import over_control

MOST = 0.9
"""The share of pairs whose largest difference is told beside that of the median pair."""


@dataclass(frozen=True)
class Repeated:
    """A load that was launched more than once: its configuration, and of each two launches that are compared
    the difference of the logarithms of what they count by."""

    configuration: Mapping[str, object]
    pairs: tuple[float, ...]

    @property
    def differences(self) -> tuple[float, ...]:
        """How much longer the slower of each two launches takes, as a share."""
        return tuple(exp(abs(pair)) - 1 for pair in self.pairs)

    @property
    def variance(self) -> float:
        """Of a launch, by its pairs: where each is compared with each, the sample variance."""
        return fmean(pair**2 for pair in self.pairs) / 2


@dataclass(frozen=True)
class LaunchNoise:
    """Of some loads, how far launches differ as a share: the median pair, `MOST` of the pairs, the furthest,
    and the standard deviation of a launch."""

    loads: int
    median_share: float
    most_share: float
    furthest_share: float
    launch_sd: float


def repeated(lines: Iterable[Line]) -> tuple[Repeated, ...]:
    """The loads with two launches or more in the order of the grid, without the control."""
    cells = [line for line in lines if line["kind"] == "cell" and "batch" in line]
    controls = {cell["batch"]: cell for cell in cells if cell["control"] == cell["load"]}
    by_load: dict[str, list[Line]] = {}
    for cell in sorted(cells, key=lambda cell: int(cell["number"])):
        if cell["control"] != cell["load"] and cell["batch"] in controls:
            by_load.setdefault(cell["load"], []).append(cell)
    return tuple(
        Repeated(
            launches[0]["configuration"],
            tuple(
                one - other
                for one, other in combinations(
                    [log(over_control(each, controls[each["batch"]])) for each in launches], 2
                )
            ),
        )
        for launches in by_load.values()
        if len(launches) > 1
    )


def repeated_by_workload(lines: Iterable[Line], *, together: bool = True) -> dict[str, tuple[Repeated, ...]]:
    """The loads that were launched more than once and not side by side, by the key of the workload that two
    launches or more served, in the order of the journal: the pairs that were measured together, or else those
    that were not."""
    steps: dict[str, dict[tuple[object, ...], dict[str, tuple[Origin, float]]]] = {}
    configurations: dict[tuple[object, ...], Mapping[str, object]] = {}
    for origin, line in with_origins(lines):
        if line["kind"] == "cell" and "batch" not in line and not line.get("same"):
            load = (line["load"], scope_of(line))
            configurations[load] = line["configuration"]
            by_load = steps.setdefault(line["workload"]["key"], {})
            step_ms = median(figures(line["requests"]).step_ms)
            by_load.setdefault(load, {})[line["launch"]] = origin, step_ms
    found: dict[str, tuple[Repeated, ...]] = {}
    for workload, by_load in steps.items():
        loads = [
            Repeated(configurations[load], _pairs(list(launches.values()), together))
            for load, launches in by_load.items()
        ]
        if compared := tuple(load for load in loads if load.pairs):
            found[workload] = compared
    return found


def _pairs(launches: Sequence[tuple[Origin, float]], together: bool) -> tuple[float, ...]:
    return tuple(
        log(one_ms) - log(other_ms)
        for (one, one_ms), (other, other_ms) in combinations(launches, 2)
        if one.is_with(other) == together
    )


def launch_noise(loads: Sequence[Repeated]) -> LaunchNoise:
    """The noise of one load or more."""
    shares = sorted(share for load in loads for share in load.differences)
    return LaunchNoise(
        loads=len(loads),
        median_share=median(shares),
        most_share=shares[ceil(MOST * len(shares)) - 1],
        furthest_share=shares[-1],
        launch_sd=sqrt(fmean(load.variance for load in loads)),
    )

"""The energy that a device took while jobs ran on it, from the means of its power. Pure.

What is kept of a device's power are means over windows of five minutes, each with the seconds that its
readings stand for (`experiments.telemetry.means`). A job that lies within a window takes the mean's power for
as long as they overlap, but for no longer than the window was read: nothing is made up for the rest. What the
device drew before or after the job within the same five minutes is in that mean too, so the figure of a job,
or of a campaign's first and last minutes, is about right and no bound.

Of older means only how many readings there were is kept. They count for the least that these may stand for: a
reading stands for one interval, which is longer while the host's processors are measured too. Such a window
that lacks fewer than a tenth of its readings counts as whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from experiments.telemetry.collect import INTERVAL_S, MEASURED_INTERVAL_S
from experiments.telemetry.means import WINDOW_S

WHOLE_FROM = 0.9
"""Share of a window's readings from which nothing is missing of it but what a busy driver leaves out."""

Span = tuple[datetime, datetime]
"""From when to when a job ran."""


@dataclass(frozen=True)
class PowerMean:
    """The mean power in watts over the window of five minutes that began then, of so many readings, which
    stand for `read_s` seconds; None where that was not kept."""

    began: datetime
    samples: int
    power_w: float
    read_s: float | None = None

    def stands_s(self, measured_s: float = 0.0) -> float:
        """For how many seconds of the window its readings stand: where that was not kept, at least, if the
        host's processors were measured for `measured_s` of it."""
        if self.read_s is not None:
            return self.read_s
        slow_due, fast_due = measured_s / MEASURED_INTERVAL_S, (WINDOW_S - measured_s) / INTERVAL_S
        if self.samples >= WHOLE_FROM * (slow_due + fast_due):
            return float(WINDOW_S)
        fast = min(self.samples, fast_due)
        return fast * INTERVAL_S + (self.samples - fast) * MEASURED_INTERVAL_S


@dataclass(frozen=True)
class EnergyPart:
    """A mean and for how many seconds of its window it counts."""

    mean: PowerMean
    seconds: float

    @property
    def energy_j(self) -> float:
        """In joules."""
        return self.mean.power_w * self.seconds


@dataclass(frozen=True)
class DeviceEnergy:
    """What a device took over `span_s` seconds of jobs; `parts` are what is known of it, oldest first."""

    parts: tuple[EnergyPart, ...]
    span_s: float

    @property
    def energy_j(self) -> float:
        """In joules, over `covered_s` alone."""
        return sum(each.energy_j for each in self.parts)

    @property
    def covered_s(self) -> float:
        """For how many of the seconds the power is known."""
        return sum(each.seconds for each in self.parts)


def device_energy(
    means: Iterable[PowerMean], spans: Iterable[Span], measured: Iterable[Span] = ()
) -> DeviceEnergy:
    """The energy of one device over the time of its jobs; `measured` is when jobs ran on the processors of
    its host. All of them may overlap and come in any order."""
    joined, slower = _joined(spans), _joined(measured)
    parts = []
    for mean in sorted(means, key=lambda each: each.began):
        seconds = min(_overlap_s(mean.began, joined), mean.stands_s(_overlap_s(mean.began, slower)))
        if seconds > 0:
            parts.append(EnergyPart(mean, seconds))
    return DeviceEnergy(tuple(parts), sum((end - begin).total_seconds() for begin, end in joined))


def _joined(spans: Iterable[Span]) -> list[Span]:
    """The spans in their order, those that overlap as one."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif begin < end:
            found.append((begin, end))
    return found


def _overlap_s(began: datetime, spans: Sequence[Span]) -> float:
    """How many seconds of the window lie within the spans."""
    ended = began + timedelta(seconds=WINDOW_S)
    within = ((max(begin, began), min(end, ended)) for begin, end in spans)
    return sum((end - begin).total_seconds() for begin, end in within if begin < end)

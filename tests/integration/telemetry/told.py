"""A source of readings that tests give: nothing of this machine is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from experiments.telemetry.collect import INTERVAL_S
from experiments.telemetry.history import History
from experiments.telemetry.reading import Sample
from tests.unit.telemetry.synthetic import BEGUN, gpu


class Told:
    """Says nothing by itself."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.interval_s = INTERVAL_S

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def pace(self, interval_s: float) -> None:
        self.interval_s = interval_s


@dataclass
class Desk:
    """A host with a card that draws 100 W, and its clock, which goes on a second at each look at it; those
    that read then get a reading. `began` is how often anybody began to read."""

    second: int = 0
    began: int = 0
    reading: list[History] = field(default_factory=list)

    def clock(self) -> datetime:
        self.second += 1
        return self.now

    @property
    def now(self) -> datetime:
        at = BEGUN + timedelta(seconds=self.second)
        for each in self.reading:
            each.add(Sample(at, "desk", (gpu(power_w=100.0),)))
        return at

    def source(self, history: History) -> Told:
        return _OfDesk(history, self)


class _OfDesk(Told):
    def __init__(self, history: History, desk: Desk) -> None:
        super().__init__(history)
        self._desk = desk

    def start(self) -> None:
        self._desk.began += 1
        self._desk.reading.append(self.history)

    def stop(self) -> None:
        self._desk.reading.remove(self.history)

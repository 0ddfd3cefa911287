"""The process that reads the devices: `python -m experiments.telemetry.collect`.

A sample a line goes to standard output. A number on a line of standard input is the interval from then on, in
seconds; the process ends when standard input does, and so with whoever started it. It gives way to all other
work and imports nothing heavy, because it runs beside measurements.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from configs.priority import give_way
from experiments.telemetry.driver import Driver, NoDriver, open_driver
from experiments.telemetry.gpus import read_gpus
from experiments.telemetry.host import HostReader, process_name
from experiments.telemetry.reading import DeviceReading, Sample
from experiments.telemetry.trace import line_of

INTERVAL_S = 1.0
"""Seconds between samples, if nothing else is said."""

MEASURED_INTERVAL_S = 5.0
"""Seconds between samples while an experiment is measured on this machine's own processors, which sampling
shares with it."""

REOPEN_S = 60.0
"""Seconds after which a driver that did not answer is tried again: it may have been updated meanwhile."""


@dataclass
class Sampler:
    """Reads this host and its GPUs; opens the driver, and again where it was lost."""

    open: Callable[[], Driver] = open_driver
    clock: Callable[[], float] = time.monotonic
    host: HostReader = field(default_factory=HostReader)
    _driver: Driver | None = None
    _note: str | None = None
    _again_at: float = 0.0

    def sample(self) -> Sample:
        """Every device now; never raises for a device."""
        gpus: tuple[DeviceReading, ...] = ()
        if self._driver is None and self.clock() >= self._again_at:
            self._open()
        if self._driver is not None:
            if self._driver.number("DeviceGetCount") is None:
                self._lose("The NVIDIA driver stopped answering.")
            else:
                gpus = read_gpus(self._driver, process_name)
        note = self._note if self._driver is None else None if gpus else "The NVIDIA driver knows no GPU."
        return Sample(datetime.now(UTC), socket.gethostname(), (*gpus, self.host.read()), note)

    def _open(self) -> None:
        try:
            self._driver = self.open()
        except NoDriver as missing:
            self._lose(str(missing))

    def _lose(self, note: str) -> None:
        if self._driver is not None:
            self._driver.close()
        self._driver, self._note, self._again_at = None, note, self.clock() + REOPEN_S


def samples(seconds: float, interval_s: float = INTERVAL_S) -> Iterator[Sample]:
    """Samples of this host, one an interval, for so many seconds; for a recording or a look."""
    sampler = Sampler()
    due, end = time.monotonic(), time.monotonic() + seconds
    while due <= end:
        yield sampler.sample()
        due += interval_s
        time.sleep(max(0.0, due - time.monotonic()))


def main() -> None:
    """Write samples until standard input ends."""
    give_way()
    sampler, source = Sampler(), sys.stdin.fileno()
    interval_s, due = INTERVAL_S, time.monotonic()
    with suppress(BrokenPipeError, KeyboardInterrupt):
        while True:
            print(line_of(sampler.sample()), flush=True)
            # Due times lie on a grid; after a pause of the machine it begins anew, without a burst.
            due = max(due + interval_s, time.monotonic())
            while select.select([source], [], [], max(0.0, due - time.monotonic()))[0]:
                told = os.read(source, 4096)  # not through a buffer, which select can't see into
                if not told:
                    return
                with suppress(ValueError, IndexError):
                    interval_s = float(told.split()[-1])
                    due = min(due, time.monotonic() + interval_s)


if __name__ == "__main__":
    main()

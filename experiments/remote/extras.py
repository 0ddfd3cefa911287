"""A copy of what a rented run tells beside its log, where pages and commands look for it.

    <root>/<key>/gpu.jsonl            samples of its GPU, a line each, named as jobs name the machine
    <root>/<key>/launches/NAME.log    the logs of its launches
    <root>/<key>/extras.json          how far the run's extras were read, and how long these files were then

What comes is data of somebody else's machine: a line that makes no sense is left out, names and sizes are
bounded. What was appended after the last count was written is cut off and read again, so that a crash doubles
nothing. Five-minute means go into the database as those of this machine do (`take_means`).
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from experiments.executors.port import LogChunk
from experiments.remote.got_gpu import GotGpu
from experiments.telemetry.history import DeviceHistory
from experiments.telemetry.means import DeviceMean, window_means, window_of
from experiments.telemetry.reading import DeviceKind, DeviceReading, Sample
from experiments.telemetry.trace import line_of, sample_of
from experiments.worker.log_tails import LAUNCH_LOGS

GPU_NAME = "gpu.jsonl"
_COPIED = "extras.json"

MOST_CHUNKS = 16
"""Pieces that are fetched at one look; what is more waits for the next, or for the last."""

MOST_BYTES = 64 * 1024 * 1024
"""Most that is kept of a run's extras: a day of samples and all logs of its launches."""

_LATE_BYTES = 256 * 1024
"""Samples of ten minutes, as they are copied, take less."""

MOST_LAUNCHES = 500
"""Logs of launches that are kept of a run."""

AHEAD_S = 60.0
"""How far the clock of the machine there may go before this one's; a sample beyond is left out."""

MOST_DEVICES = 16
_WORDS = 80
"""Most characters of a name, and most reasons, that a sample may tell."""

_LOG_NAME = re.compile(r"[a-z_]{1,20}-[a-z_]{1,20}-[0-9]{1,6}(?:-[a-z_]{1,20})?\.log", re.ASCII)


class Tells(Protocol):
    """An executor that tells extras."""

    def extras(self, ref: str, cursor: int = 0) -> LogChunk | None:
        """The extras of a run from byte `cursor` on; None where none are kept."""
        ...


class ExtrasCopy:
    """Follows the extras of one run, whose machine jobs call `host`/`device`, such as `modal:L4`/`J-7`."""

    def __init__(self, root: Path, key: str, host: str, device: str) -> None:
        self._folder = root / key
        self._host = host
        self._device = device
        self._cursor: int | None = None
        self._sizes: dict[str, int] = {}
        self._window: datetime | None = None
        self._moments: dict[str, list[tuple[datetime, DeviceReading]]] = {}
        self._means: list[DeviceMean] = []
        self.got: tuple[GotGpu, ...] = ()
        """The GPUs that the samples told, each once."""

    def update(self, executor: Tells, ref: str, *, last: bool = False) -> None:
        """Fetch what was added since the last call, at the `last` all of it; raises what the executor raises,
        and `OSError`."""
        if self._cursor is None:
            self._begin()
        chunks = 0
        while last or chunks < MOST_CHUNKS:
            chunks += 1
            assert self._cursor is not None
            if self._cursor >= MOST_BYTES:
                return
            chunk = executor.extras(ref, self._cursor)
            whole = None if chunk is None else chunk.text[: chunk.text.rfind("\n") + 1]
            if not whole:
                return
            self._take(whole.split("\n"))
            self._cursor += len(whole.encode())
            self._count()

    def take_means(self, *, last: bool = False) -> list[DeviceMean]:
        """The means of windows that are over and were not taken yet; at the `last` of the one that is not."""
        if last:
            self._close_window()
        found, self._means = self._means, []
        return found

    def _begin(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            told = json.loads((self._folder / _COPIED).read_bytes())
            self._cursor, self._sizes = (
                int(told["cursor"]),
                {str(k): int(v) for k, v in told["sizes"].items()},
            )
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            self._cursor, self._sizes = 0, {}
        kept = [self._folder / GPU_NAME, *(self._folder / LAUNCH_LOGS).glob("*.log")]
        for path in kept:
            if path.is_file():
                with path.open("ab") as file:
                    file.truncate(self._sizes.get(self._name_of(path), 0))
        for sample in read_samples(self._folder, 0)[0]:
            self._note(sample)

    def _take(self, lines: list[str]) -> None:
        added: dict[str, list[str]] = {}
        for line in lines:
            try:
                told = json.loads(line)
                if "gpu" in told:
                    sample = self._named(sample_of(json.dumps({"host": "", **told["gpu"]})))
                    if sample is not None:
                        self._note(sample)
                        added.setdefault(GPU_NAME, []).append(line_of(sample) + "\n")
                elif _LOG_NAME.fullmatch(str(told["launch"])) and isinstance(told["text"], str):
                    added.setdefault(f"{LAUNCH_LOGS}/{told['launch']}", []).append(told["text"])
            except (ValueError, TypeError, KeyError):
                continue
        for name, texts in added.items():
            self._append(name, "".join(texts).encode(errors="replace"))

    def _append(self, name: str, data: bytes) -> None:
        if name not in self._sizes and len(self._sizes) > MOST_LAUNCHES:
            return
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
        self._sizes[name] = self._sizes.get(name, 0) + len(data)

    def _count(self) -> None:
        temporary = self._folder / (_COPIED + ".tmp")
        temporary.write_text(json.dumps({"cursor": self._cursor, "sizes": self._sizes}))
        temporary.rename(self._folder / _COPIED)

    def _name_of(self, path: Path) -> str:
        return path.relative_to(self._folder).as_posix()

    def _named(self, sample: Sample) -> Sample | None:
        """The sample as of this run's machine; None for one that can't be of now or before."""
        at = sample.at.astimezone(UTC) if sample.at.tzinfo else sample.at.replace(tzinfo=UTC)
        if at > datetime.now(UTC) + timedelta(seconds=AHEAD_S):
            return None
        gpus = [each for each in sample.devices if each.kind is DeviceKind.GPU][:MOST_DEVICES]
        devices = tuple(
            _bounded(each, self._device if number == 0 else f"{self._device}/{number}")
            for number, each in enumerate(gpus)
        )
        return Sample(at, self._host, devices) if devices else None

    def _note(self, sample: Sample) -> None:
        """Count the sample into its window's means, and what it tells of the GPU."""
        window = window_of(sample.at)
        if self._window is not None and window > self._window:
            self._close_window()
        self._window = max(window, self._window or window)
        for device in sample.devices:
            self._moments.setdefault(device.name, []).append((sample.at, device))
            got = GotGpu(device.model, device.memory_total_bytes or 0)
            if device.memory_total_bytes and got not in self.got and len(self.got) < MOST_DEVICES:
                self.got = (*self.got, got)

    def _close_window(self) -> None:
        if self._window is not None:
            devices = [DeviceHistory(self._host, tuple(each)) for each in self._moments.values()]
            self._means += window_means(devices, self._window)
        self._moments = {}


def read_samples(folder: Path, cursor: int) -> tuple[tuple[Sample, ...], int]:
    """The samples of a run's copy from byte `cursor` on, and the byte to read from next."""
    try:
        with (folder / GPU_NAME).open("rb") as file:
            file.seek(cursor)
            data = file.read()
    except FileNotFoundError:
        return (), cursor
    whole = data[: data.rfind(b"\n") + 1]
    return tuple(sample_of(line) for line in whole.decode().splitlines()), cursor + len(whole)


def read_samples_of_late(folder: Path, cursor: int | None) -> tuple[tuple[Sample, ...], int | None]:
    """The same, where without a cursor only the end of the copy is read, some ten minutes; a copy that has
    become shorter is read anew. The cursor is None as long as there is no copy."""
    try:
        size = (folder / GPU_NAME).stat().st_size
    except FileNotFoundError:
        return (), None
    if cursor is not None and cursor <= size:
        return read_samples(folder, cursor)
    if size <= _LATE_BYTES:
        return read_samples(folder, 0)
    with (folder / GPU_NAME).open("rb") as file:
        file.seek(size - _LATE_BYTES)
        torn = len(file.readline())
    return read_samples(folder, size - _LATE_BYTES + torn)


def _bounded(told: DeviceReading, name: str) -> DeviceReading:
    """A reading under the name that the machine has here, without figures that are none."""
    figures: dict[str, Any] = {
        field: value if isinstance(value, int | float) and math.isfinite(value) and value >= 0 else None
        for field in _FIGURES
        for value in (getattr(told, field),)
    }
    reasons = None if told.throttle is None else tuple(each[:_WORDS] for each in told.throttle[:MOST_DEVICES])
    model = told.model[:_WORDS]
    return replace(told, name=name, model=model, throttle=reasons, processes=None, **figures)


_FIGURES = (
    "utilization_percent",
    "memory_used_bytes",
    "memory_total_bytes",
    "power_w",
    "power_limit_w",
    "temperature_c",
    "clock_mhz",
    "clock_max_mhz",
)

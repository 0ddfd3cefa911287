"""What a rented run tells beside its records and its log: samples of its GPU, and the logs of its launches.

It is one file of lines in the run's folder on the machine there, which an executor brings here as it does the
log, piece by piece (`extras` of its port):

    {"gpu": SAMPLE}                      a second of the GPU, without names of processes
    {"launch": NAME, "text": TEXT}       what was added to the log of a launch
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from experiments.job.running_job import LAUNCH_LOGS
from experiments.telemetry.reading import DeviceKind, Sample
from experiments.telemetry.trace import document_of

EXTRAS_NAME = "extras.jsonl"

INTERVAL_S = 1.0
"""Seconds between samples, as on this machine."""

LINE_BYTES = 8 * 1024
"""Most of a log that one line takes, so that a line fits into what is asked for at once."""

LOOK_BYTES = 64 * 1024
"""Most of a launch's log that one look takes, its end: pages show no more."""

LOGS_BYTES = 16 * 1024 * 1024
"""Most of all logs of launches of a run together."""


class ExtrasWriter:
    """Writes the extras of a run below `folder` from `with` to its end; `sample` reads the machine, None
    where it has no GPU to be read."""

    def __init__(
        self, folder: Path, sample: Callable[[], Sample] | None, interval_s: float = INTERVAL_S
    ) -> None:
        self._folder = folder
        self._sample = sample
        self._interval_s = interval_s
        self._file = (folder / EXTRAS_NAME).open("ab", buffering=0)
        self._writing = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="samples of the GPU", daemon=True)
        self._read: dict[str, int] = {}
        self._left_bytes = LOGS_BYTES

    def __enter__(self) -> ExtrasWriter:
        if self._sample is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        if self._sample is not None:
            self._thread.join()
        self._file.close()

    def look(self, *, last: bool = False) -> None:
        """Take in what launches have written since the last look: whole lines; at the `last`, all of it."""
        for log in sorted((self._folder / LAUNCH_LOGS).glob("*.log")):
            if self._left_bytes > 0:
                self._take(log, last)

    def _take(self, log: Path, last: bool) -> None:
        at = self._read.get(log.name, 0)
        size = log.stat().st_size
        at = 0 if size < at else at
        left_out = max(0, size - at - LOOK_BYTES)
        with log.open("rb") as file:
            file.seek(at + left_out)
            data = file.read(size - at - left_out)
        if left_out:
            first = data.find(b"\n") + 1
            left_out, data = left_out + first, data[first:]
        whole = data if last or len(data) == LOOK_BYTES else data[: data.rfind(b"\n") + 1]
        if not whole:
            return
        if left_out:
            self._tell(log.name, f"[{left_out} bytes are left out here]\n".encode())
        self._read[log.name] = at + left_out + len(whole)
        while whole:
            cut = whole.rfind(b"\n", 0, LINE_BYTES) + 1 if len(whole) > LINE_BYTES else len(whole)
            piece, whole = whole[: cut or LINE_BYTES], whole[cut or LINE_BYTES :]
            self._tell(log.name, piece)

    def _tell(self, name: str, piece: bytes) -> None:
        if self._left_bytes <= 0:
            return
        self._left_bytes -= len(piece)
        text = piece.decode(errors="replace")
        if self._left_bytes <= 0:
            text += "\n[The logs of this run's launches are longer; the rest stayed on its machine.]\n"
        self._write({"launch": name, "text": text})

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ending.wait(max(0.0, due - time.monotonic())):
            assert self._sample is not None
            told = gpus_alone(self._sample())
            if told.devices:
                self._write({"gpu": _without_none(document_of(told))})
            # On a grid; after a pause of the machine it begins anew, without a burst.
            due = max(due + self._interval_s, time.monotonic())

    def _write(self, line: dict[str, object]) -> None:
        data = json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode(errors="replace") + b"\n"
        with self._writing:
            self._file.write(data)


def gpus_alone(sample: Sample) -> Sample:
    """The GPUs of a sample, without the processes on them and the name of the machine."""
    devices = tuple(
        replace(each, processes=None) for each in sample.devices if each.kind is not DeviceKind.CPU
    )
    return replace(sample, host="", devices=devices, note=None)


def _without_none(value: object) -> object:
    """A document without what is not there: what reads it takes it for not reported."""
    if isinstance(value, dict):
        return {name: _without_none(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_without_none(each) for each in value]
    return value

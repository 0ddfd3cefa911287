"""The paced server (`paced_server.py`) as a process of its own, and what its record says.

A record becomes traces, so that one and the same code makes figures of what the server noted and of what a
client told: a request of the record begins when it had arrived, and its tokens came when they were handed
to the socket.
"""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from experiments.engines.port import GenerationTrace
from tests.benchmarks.paced_server import MADE_UP, RECORD, TIMETABLE, Answered, Timetable

ROOT = Path(__file__).parents[2]

MODULE = "tests.benchmarks.paced_server"

ANSWER_S = 60.0
"""Most seconds that the server is waited for."""


class PacedServer:
    """A running paced server; ends with the context, and with this process however that ends."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        if not self.address:
            raise RuntimeError(f"The paced server ended with code {self._process.wait()} as it began.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it, and wait until it has; idempotent."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(ANSWER_S)
        finally:
            self._process.kill()
            self._process.stdout.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def set(self, table: Timetable) -> None:
        """Let it go by this timetable, with nothing noted."""
        self._ask(TIMETABLE, asdict(table))

    def record(self) -> list[Answered]:
        """What it noted since, in the order of arrival."""
        return [Answered(**each) for each in self._ask(RECORD, {})]

    def _ask(self, path: str, body: Mapping[str, Any]) -> Any:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.address + path, json.dumps(body).encode(), ANSWER_S) as answer:
            return json.load(answer)


def trace_of(noted: Answered) -> GenerationTrace:
    """A request as the server noted it."""
    times_s = tuple(each - noted.arrived_s for each in noted.written_s)
    return GenerationTrace((MADE_UP,) * len(times_s), times_s, start_s=noted.arrived_s)


def late_ms(noted: Sequence[Answered]) -> list[float]:
    """By how much each token was handed over later than it was due."""
    return [
        1e3 * (written_s - due_s)
        for each in noted
        for due_s, written_s in zip(each.due_s, each.written_s, strict=True)
    ]


def ways_ms(noted: Sequence[Answered], told: Sequence[GenerationTrace]) -> tuple[list[float], list[float]]:
    """From each request's start at its client to its arrival; and from each token's handing over to when
    the client says that it read it. Of the same requests in the same order, on one machine's clock."""
    there, back = [], []
    for note, trace in zip(noted, told, strict=True):
        there.append(1e3 * (note.arrived_s - trace.start_s))
        for written_s, read_s in zip(note.written_s, trace.token_times_s, strict=True):
            back.append(1e3 * (trace.start_s + read_s - written_s))
    return there, back

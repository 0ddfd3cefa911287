"""Listens to what the engine and vLLM's driver say to each other, while they are recorded.

It stands where vLLM's Python is expected, runs that Python, and hands everything on unchanged. What passes
through the pipes of a driver, or of the client of its HTTP server, is written to a file of its own in a
folder, one event a line: where its `log` is, what was `asked` and `answered`, with how long the log was then,
and with which exit code it `ended`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from tests.recorded.vllm_recording import CLIENT, DRIVER, Exchange, write_python


def python_of(path: Path, python: Path, events: Path) -> Path:
    """What stands in the place of `python`, written at `path`; its drivers' events go to the folder."""
    events.mkdir()
    return write_python(path, __name__, [str(events), str(python)])


@dataclass(frozen=True)
class Events:
    """Where a driver's events are written; from two threads."""

    file: IO[str]
    lock: threading.Lock

    def write(self, **event: Any) -> None:
        """Write one event and push it out."""
        with self.lock:
            self.file.write(json.dumps({**event, "log_bytes": os.fstat(2).st_size}) + "\n")
            self.file.flush()


def listen(python: str, arguments: list[str], file: IO[str]) -> int:
    """Run the driver and hand everything on; its exit code."""
    events = Events(file, threading.Lock())
    events.write(log=os.readlink("/proc/self/fd/2"))
    driver = subprocess.Popen([python, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert driver.stdin is not None
    assert driver.stdout is not None
    requests = driver.stdin

    def hand_on() -> None:
        for line in sys.stdin.buffer:
            events.write(asked=json.loads(line))
            requests.write(line)
            requests.flush()
        requests.close()

    threading.Thread(target=hand_on, daemon=True).start()
    for line in driver.stdout:
        processes = len(psutil.Process(driver.pid).children(recursive=True))
        events.write(answered=json.loads(line), processes=processes)
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    code = driver.wait()
    events.write(ended=code)
    return code


def heard(launch: str, path: Path) -> list[Exchange]:
    """The exchanges of a driver's file of events; the log of each reaches to the next one's begin."""
    first, *events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    log = Path(first["log"]).read_bytes()
    begins = [place for place, event in enumerate(events) if "asked" in event]
    found = []
    for begin, end in zip(begins, [*begins[1:], len(events)], strict=True):
        answer = next((each for each in events[begin:end] if "answered" in each), None)
        ended = next((each["ended"] for each in events[begin:end] if "ended" in each), None)
        until = events[end]["log_bytes"] if end < len(events) else len(log)
        found.append(
            Exchange(
                launch,
                events[begin]["asked"],
                begin == begins[0],
                None if answer is None else answer["answered"],
                log[events[begin]["log_bytes"] : until].decode(errors="replace"),
                ended if answer is None else None,
                answer["processes"] if answer is not None and begin == begins[0] else 0,
            )
        )
    return found


def main() -> None:
    """Be what `python_of` stands for; the arguments are those of a Python."""
    events, python, *arguments = sys.argv[1:]
    del os.environ["PYTHONPATH"]  # of this module alone: a driver is started without
    if arguments[-1] not in (DRIVER, CLIENT):
        os.execv(python, [python, *arguments])
    with (Path(events) / f"{time.time_ns()}.jsonl").open("w", encoding="utf-8") as file:
        code = listen(python, arguments, file)
    sys.exit(code)


if __name__ == "__main__":
    main()

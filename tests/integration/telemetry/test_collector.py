"""The collector: it samples at its pace, stands back, ends with its parent, comes back when killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread

import psutil
import pytest

from configs.priority import NICENESS
from experiments.telemetry import collector as collecting
from experiments.telemetry.collector import COMMAND, Collector, Replay
from experiments.telemetry.history import KEPT_S, DeviceHistory, History
from experiments.telemetry.trace import sample_of
from tests.unit.telemetry.synthetic import trace
from tests.waiting import PATIENCE_S, wait_for


def host_of(history: History) -> DeviceHistory | None:
    found = history.devices(datetime.now(UTC))
    return found[-1] if found else None


def samples(history: History) -> int:
    host = host_of(history)
    return 0 if host is None else len(host.moments)


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def collector(history: History) -> Iterator[Collector]:
    made = Collector(history)
    made.start()
    yield made
    made.stop()


def test_this_machine_is_sampled_from_a_process_that_stands_back(
    collector: Collector, history: History
) -> None:
    wait_for(lambda: samples(history) > 0)
    collector.pace(0.05)
    wait_for(lambda: samples(history) > 4)
    host = host_of(history)
    assert host is not None
    assert host.latest.memory_total_bytes == psutil.virtual_memory().total
    assert 0 <= (host.latest.utilization_percent or 0) <= 100
    assert collector.pid is not None
    process = psutil.Process(collector.pid)
    assert process.nice() == min(os.nice(0) + NICENESS, 19)
    collector.stop()
    assert not process.is_running()


def test_a_collector_that_is_killed_comes_back_at_the_same_pace(
    collector: Collector, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "RESTART_AFTER_S", (0.0,))
    collector.pace(0.05)
    wait_for(lambda: samples(history) > 1)
    first = collector.pid
    assert first is not None
    psutil.Process(first).kill()
    wait_for(lambda: collector.pid != first)
    before = samples(history)
    wait_for(lambda: samples(history) > before + 2)


def test_it_ends_with_its_input_and_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom experiments.telemetry.collect import main\nmain()\n"
        "print(*sorted({'torch', 'numpy', 'pydantic', 'sqlalchemy'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert [each.name for each in sample_of(done.stdout).devices][-1] == "cpu"
    assert done.stderr.strip() == ""


def test_a_collector_that_talks_nonsense_does_no_harm(history: History, tmp_path: Path) -> None:
    silly = Collector(history, (sys.executable, "-c", "print('nonsense'); input()"))
    silly.start()
    wait_for(lambda: silly.pid is not None)
    silly.stop()
    assert samples(history) == 0
    assert COMMAND[0] == sys.executable


def test_an_invented_recording_is_replayed_at_its_own_pace_and_has_been_for_ten_minutes(
    history: History,
) -> None:
    replay = Replay(history, trace(3))
    replay.start()
    begun = datetime.now(UTC)
    wait_for(lambda: (host := host_of(history)) is not None and host.at > begun)
    replay.stop()
    device = history.devices(datetime.now(UTC))[0]
    assert device.latest.model == "Synthetic GPU"
    first, last = device.moments[0][0], device.moments[-1][0]
    assert KEPT_S - PATIENCE_S < (last - first).total_seconds() <= KEPT_S
    assert len(device.moments) > KEPT_S - PATIENCE_S


def test_a_process_that_was_begun_as_all_ended_is_ended_and_its_pipes_are_closed(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, made, ended = subprocess.Popen, list[subprocess.Popen[str]](), Event()

    def slowly(*arguments: object, **named: object) -> subprocess.Popen[str]:
        made.append(begin(*arguments, **named))  # type: ignore[call-overload]
        ended.wait(PATIENCE_S)
        return made[0]

    collector = Collector(history)
    monkeypatch.setattr(collecting.subprocess, "Popen", slowly)
    collector.start()
    wait_for(lambda: made)
    stopping = Thread(target=collector.stop)
    stopping.start()
    time.sleep(0.2)  # it is told to end before the process is known to it
    ended.set()
    stopping.join()
    process = made[0]
    assert process.wait(PATIENCE_S) == 0
    assert process.stdin is not None
    assert process.stdout is not None
    wait_for(lambda: process.stdin.closed and process.stdout.closed)


def test_a_process_that_cannot_be_started_is_tried_again(
    history: History, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(collecting, "RESTART_AFTER_S", (0.0,))
    missing, written = tmp_path / "python", tmp_path / "written"
    written.write_text(f'#!/bin/sh\nexec {COMMAND[0]} "$@"\n')
    written.chmod(0o700)
    late = Collector(history, (str(missing), *COMMAND[1:]))
    late.start()
    wait_for(lambda: "could not be started (No such file or directory)" in caplog.text)
    written.rename(missing)
    wait_for(lambda: samples(history) > 0)
    late.stop()

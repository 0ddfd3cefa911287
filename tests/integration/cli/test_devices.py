"""`autoinfer devices`: a look, a recording, and what is no recording."""

from __future__ import annotations

from pathlib import Path

import psutil

from experiments.telemetry.trace import RECORDED_HOST, read_trace
from tests.integration.cli.command import Autoinfer


def test_a_look_tells_what_the_processors_do(autoinfer: Autoinfer) -> None:
    found = autoinfer("devices --json").json()
    host = found["devices"][-1]
    assert host["name"] == "cpu"
    assert host["memory_total_bytes"] == psutil.virtual_memory().total
    assert 0 <= host["utilization_percent"] <= 100
    assert "utilization" in autoinfer("devices").out


def test_a_recording_can_be_read_again_and_does_not_name_the_machine(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    file = tmp_path / "readings.jsonl"
    told = autoinfer(f"devices --record {file} --seconds 1 --json").json()
    trace = read_trace(file)
    assert told == {"file": str(file), "samples": len(trace.samples)}
    assert trace.origin == "nvml"
    assert {each.host for each in trace.samples} == {RECORDED_HOST}


def test_a_file_that_can_t_be_written_or_replayed_is_told(autoinfer: Autoinfer, tmp_path: Path) -> None:
    done = autoinfer(f"devices --record {tmp_path / 'no' / 'file'}")
    assert done.code == 2
    assert "can't be written" in done.err
    (tmp_path / "junk").write_text("junk")
    done = autoinfer(f"dashboard --replay-devices {tmp_path / 'junk'}")
    assert done.code == 2
    assert "is no recording of device readings" in done.err

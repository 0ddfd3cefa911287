"""Figures for a watcher, in the text that Prometheus reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dashboard.devices import Devices
from dashboard.web.metrics import prometheus
from dashboard.web.timing import BOUNDS_S, Timings
from db.states import HypothesisState
from experiments.telemetry.history import STALE_AFTER_S, DeviceHistory
from experiments.telemetry.reading import DeviceKind, DeviceReading, Sample
from knowledge.queries.vitals import vitals
from tests.history.campaign_history import a_full_history

SAMPLE = re.compile(r'[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [0-9.e+-]+')


def told(timings: Timings, folder: Path, devices: Sequence[DeviceHistory] = ()) -> dict[str, str]:
    history = a_full_history(folder)
    try:
        with history.database.read() as session:
            text = prometheus(vitals(session), 3, timings, devices)
    finally:
        history.close()
    samples = [line for line in text.splitlines() if not line.startswith("# ")]
    assert all(SAMPLE.fullmatch(line) for line in samples), samples
    return dict(line.rsplit(" ", 1) for line in samples)


def test_every_state_is_counted_and_what_waits_is_the_length_of_the_queue(tmp_path: Path) -> None:
    found = told(Timings(), tmp_path)
    states = {f'autoinfer_hypotheses{{state="{state.value}"}}' for state in HypothesisState}
    assert states <= set(found)
    assert found["autoinfer_queue_length"] == found['autoinfer_hypotheses{state="queued"}'] == "2"
    assert found['autoinfer_hypotheses{state="supported"}'] == "1"
    assert found["autoinfer_hypotheses_awaiting_approval"] == "0"
    assert found["autoinfer_viewers"] == "3"
    assert float(found["autoinfer_experiment_seconds_total"]) == 4 * 42.0


def test_the_histogram_adds_up(tmp_path: Path) -> None:
    timings = Timings()
    for took_s in (0.001, 0.03, 7.0):
        timings.add("/log", took_s)
    found = told(timings, tmp_path)
    name = "autoinfer_request_seconds"
    counts = [int(found[f'{name}_bucket{{route="/log",le="{bound}"}}']) for bound in (*BOUNDS_S, "+Inf")]
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert counts[-1] == int(found[f'{name}_count{{route="/log"}}']) == 3
    assert float(found[f'{name}_sum{{route="/log"}}']) == 7.031


def test_devices_are_told_in_base_units_and_what_they_do_not_report_is_left_out(tmp_path: Path) -> None:
    gpu = DeviceReading(
        "cuda:0", DeviceKind.GPU, "NVIDIA H200", 41.0, 3 * 2**30, clock_mhz=1980.0, throttle=("power cap",)
    )
    host = DeviceReading("cpu", DeviceKind.CPU, "Some CPU", throttle=None)
    now = datetime(2026, 11, 22, tzinfo=UTC)
    devices = Devices()
    devices.history.add(Sample(now, "desk", (gpu, host)))
    found = told(Timings(), tmp_path, devices.fresh(now))
    labels = '{device="desk/cuda:0",kind="gpu",model="NVIDIA H200"}'
    told_of = {name: value for name, value in found.items() if name.startswith("autoinfer_device_")}
    assert {name: float(value) for name, value in told_of.items()} == {
        f"autoinfer_device_utilization_ratio{labels}": 0.41,
        f"autoinfer_device_memory_used_bytes{labels}": 3 * 2**30,
        f"autoinfer_device_clock_hertz{labels}": 1.98e9,
        f"autoinfer_device_throttled{labels}": 1,
    }
    assert devices.fresh(now + timedelta(seconds=STALE_AFTER_S + devices.interval_s + 1)) == ()

"""The page of devices, built from invented readings: several, stale, silent, divided, none."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from dashboard.device_views import GIB, DeviceView, device_views
from dashboard.devices import Devices
from dashboard.page import Request
from dashboard.pages.gpus import PAGE, GpusFilters, GpusView, gpus_view
from dashboard.rendering.environment import render
from experiments.telemetry.reading import DeviceKind, DeviceReading
from knowledge.queries.building import BuildingView
from knowledge.queries.devices import OnDevice
from tests.unit.telemetry.synthetic import BEGUN, cpu, gpu, sample, trace

MARKUP = "<script>alert(1)</script>"


def on(device: str, claim: str = "It is faster") -> dict[str, OnDevice]:
    job = OnDevice(
        device=device,
        kind="experiment",
        experiment="E-0020",
        hypothesis="H-021",
        claim=claim,
        stage="full",
        started_at=BEGUN,
    )
    return {device: job}


def devices_with(*readings: DeviceReading, seconds: int = 3, note: str | None = None) -> Devices:
    found = Devices()
    for second in range(seconds):
        found.history.add(sample(second, *readings, host=found.host, note=note))
    return found


def after(seconds: float) -> datetime:
    return BEGUN + timedelta(seconds=seconds)


def view_of(devices: Devices, at_s: float = 3, running: dict[str, OnDevice] | None = None) -> GpusView:
    return gpus_view(devices, running or {}, after(at_s), 10)


def html_of(view: GpusView) -> str:
    return PAGE.live(view, Request({}, GpusFilters()))


def test_a_gpu_at_work_shows_every_reading_with_its_unit_and_its_limit() -> None:
    devices = devices_with(gpu(), cpu())
    view = view_of(devices, running=on(f"{devices.host}/cuda:0"))
    assert (view.lead, view.rest) == ("One GPU, at work.", "Nothing holds its clocks down.")
    device, host = view.devices
    told = [(each.name, each.value, each.of, each.unit) for each in device.readings]
    assert told == [
        ("utilization", 97, None, "%"),
        ("memory", 21, 140, "GiB"),
        ("power", 432, 700, "W"),
        ("temperature", 54, None, "°C"),
        ("clock", 1980, 1980, "MHz"),
    ]
    assert [each.name for each in host.readings] == ["utilization", "memory"]
    assert device.processes is not None
    assert device.processes[0].memory_gib == 20 * 2**30 / GIB
    text = html_of(view)
    for words in (
        "21.0",
        "of 140&#8239;GiB",
        "of 700&#8239;W",
        "of 1,980&#8239;MHz",
        "432",
        "E-0020",
        "It is faster",
        "no throttling",
        "this machine, GPU 0",
    ):
        assert words in text
    assert text.count("not reported") == 0


def test_a_gpu_that_builds_for_a_test_to_come_says_so() -> None:
    devices = devices_with(gpu())
    device = f"{devices.host}/cuda:0"
    build = OnDevice(
        device=device,
        kind="build",
        experiment=None,
        hypothesis=None,
        claim=None,
        stage=None,
        started_at=BEGUN,
        building=BuildingView(purpose=None, made_by=()),
    )
    text = html_of(view_of(devices, running={device: build}))
    assert "Builds a checkpoint for a test to come" in text
    assert "A job: build" not in text


def test_what_is_missing_is_not_reported_and_breaks_nothing() -> None:
    view = view_of(devices_with(DeviceReading("cuda:0", DeviceKind.GPU, "GPU that does not answer"), cpu()))
    assert view.lead == "One GPU, idle."
    assert [each.value for each in view.devices[0].readings] == [None] * 5
    text = html_of(view)
    assert text.count('<dd class="na">not reported</dd>') == 5
    assert "throttling not reported" in text
    assert "Processes are not reported." in text


def test_readings_that_stopped_are_stale_with_their_age() -> None:
    view = view_of(devices_with(gpu(), cpu()), at_s=10)
    assert (view.lead, view.rest) == ("One GPU, stale.", "Sampling stopped: these readings are old.")
    assert all(device.stale for device in view.devices)
    assert "stale 8\u202fs" in html_of(view)
    slow = devices_with(gpu(), cpu())
    slow.keeper.interval_s = 5.0
    assert not any(device.stale for device in view_of(slow, at_s=9).devices)


def test_a_throttled_gpu_says_why_in_words() -> None:
    view = view_of(devices_with(gpu(0), gpu(1, throttle=("power cap", "heat, by the driver")), cpu()))
    assert view.lead == "2 GPUs, 2 at work."
    assert view.rest == "this machine, GPU 1: power cap, heat, by the driver."
    assert "held down: power cap, heat, by the driver" in html_of(view)


def test_without_a_gpu_the_page_says_why_and_what_to_do() -> None:
    view = view_of(devices_with(cpu(), note="No NVIDIA driver answers on this machine."))
    assert view.lead == "No GPU here."
    text = html_of(view)
    assert "No NVIDIA driver answers on this machine." in text
    assert "autoinfer doctor" in text
    assert "Synthetic CPU, 16 cores" in text


def test_before_the_first_reading_nothing_is_claimed() -> None:
    view = view_of(Devices())
    assert (view.lead, view.devices, view.missing) == ("No reading yet.", (), None)
    html_of(view)


def test_an_instance_of_a_divided_gpu_stands_below_it() -> None:
    part = DeviceReading("cuda:0/mig:1", DeviceKind.MIG, "Synthetic 3g", memory_used_bytes=GIB)
    view = view_of(devices_with(gpu(), part, cpu()))
    assert [each.place for each in view.devices] == [
        "this machine, GPU 0",
        "this machine, GPU 0, instance 1",
        "this machine",
    ]
    assert [each.name for each in view.devices[1].readings] == ["utilization", "memory"]


def test_another_host_comes_after_this_one_and_its_jobs_show_without_readings() -> None:
    devices = devices_with(gpu(), cpu())
    devices.history.add(sample(2, gpu(), host="a-host"))
    view = view_of(devices, running=on("z-host/cuda:3"))
    assert [(each.local, each.place) for each in view.devices] == [
        (True, "this machine, GPU 0"),
        (True, "this machine"),
        (False, "a-host, GPU 0"),
        (False, "z-host"),
    ]
    assert "readings do not come here" in html_of(view)


def test_an_invented_recording_is_labelled_as_such() -> None:
    devices = Devices(trace(5))
    for each in trace(5).samples:
        devices.history.add(each)
    text = html_of(gpus_view(devices, {}, after(5), 10))
    assert "These readings are not of now." in text
    assert "Invented readings of Synthetic GPU" in text


def test_hostile_names_are_escaped() -> None:
    devices = devices_with(gpu(), cpu(), note=MARKUP)
    devices.history.add(sample(3, DeviceReading("cuda:9", DeviceKind.GPU, MARKUP), host=MARKUP))
    text = html_of(view_of(devices, running=on(f"{devices.host}/cuda:0", MARKUP)))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_ids_are_told_apart_and_stay() -> None:
    devices = devices_with(gpu(0), gpu(1), cpu())
    first, second = ([each.slug for each in device_views(devices, {}, after(at_s))] for at_s in (3, 60))
    assert first == second
    assert len(set(first)) == 3


def test_a_curve_has_ten_minutes_in_steps_with_gaps_where_nothing_was_read() -> None:
    view = gpus_view(devices_with(gpu(), cpu(), seconds=25), {}, after(25), 10)
    series = view.devices[0].readings[2].series
    assert len(series) == 60
    assert series[-4:] == (None, 432.0, 432.0, 432.0)
    assert view.series_end == after(30)


@pytest.mark.parametrize("stale", [False, True])
def test_the_tile_for_other_pages_has_the_same_readings(stale: bool) -> None:
    device: DeviceView = view_of(devices_with(gpu(), cpu()), at_s=30 if stale else 3).devices[0]
    text = render("gpus/_tile.html", {"device": device})
    assert "Synthetic GPU" in text
    assert text.count("<dt>") == 4
    assert ("stale 28" in text) is stale
    assert 'href="/gpus#device-' in text


def test_curves_are_made_once_a_reading_and_never_too_old() -> None:
    devices = devices_with(gpu(), cpu())
    first = view_of(devices).devices[0].readings
    made = devices.curves[f"{devices.host}/cuda:0", 10]
    assert view_of(devices).devices[0].readings == first
    assert devices.curves[f"{devices.host}/cuda:0", 10] is made
    devices.history.add(sample(4, gpu(utilization_percent=1.0), cpu(), host=devices.host))
    again = view_of(devices, at_s=4).devices[0].readings
    assert again[0].value == 1.0
    assert again[0].series != first[0].series
    assert view_of(devices, at_s=14).devices[0].readings[0].series[-1] is None

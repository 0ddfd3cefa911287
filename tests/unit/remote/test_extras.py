"""What a rented run tells beside its log: written there, copied here once, and bounded, whatever it says."""

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.executors.copied_text import chunk_of
from experiments.executors.extras import EXTRAS_NAME, LOOK_BYTES, ExtrasWriter
from experiments.executors.port import LogChunk
from experiments.remote.extras import ExtrasCopy, read_samples
from experiments.remote.got_gpu import GotGpu
from experiments.telemetry.means import WINDOW_S
from experiments.telemetry.reading import Sample
from tests.simulated.gpu_samples import made_up_sampler
from tests.waiting import PATIENCE_S

HOST, DEVICE = "files:L4", "J-7"


class Told:
    """An executor as far as extras go."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / EXTRAS_NAME

    def extras(self, ref: str, cursor: int = 0) -> LogChunk | None:
        return chunk_of(self.path, cursor)


def copy_of(root: Path) -> ExtrasCopy:
    return ExtrasCopy(root, "key", HOST, DEVICE)


def launches(folder: Path) -> Path:
    made = folder / "launches"
    made.mkdir(exist_ok=True)
    return made


def test_samples_come_as_those_of_a_machine_of_its_own_without_its_name_and_processes(tmp_path: Path):
    seen = threading.Event()
    made_up = made_up_sampler("NVIDIA L4,24")
    assert made_up is not None

    def sample() -> Sample:
        if (tmp_path / EXTRAS_NAME).stat().st_size:
            seen.set()
        return made_up()

    with ExtrasWriter(tmp_path, sample, 0.01):
        assert seen.wait(PATIENCE_S)
    copy = copy_of(tmp_path / "here")
    copy.update(Told(tmp_path), "ref", last=True)
    samples, end = read_samples(tmp_path / "here" / "key", 0)
    assert len(samples) >= 1
    [device] = samples[0].devices
    assert (samples[0].host, device.name, device.model) == (HOST, DEVICE, "NVIDIA L4")
    assert (device.memory_total_bytes, device.processes) == (24 * 10**9, None)
    assert device.throttle == ()
    assert "a-machine-of-tests" not in (tmp_path / EXTRAS_NAME).read_text()
    assert copy.got == (GotGpu("NVIDIA L4", 24 * 10**9),)
    assert read_samples(tmp_path / "here" / "key", end) == ((), end)


def test_logs_of_launches_are_followed_and_a_torn_line_waits_for_its_end(tmp_path: Path):
    log = launches(tmp_path) / "quick-candidate-0.log"
    copied = tmp_path / "here" / "key" / "launches" / log.name
    log.write_text("loading weights µ\nrea")
    with ExtrasWriter(tmp_path, None) as extras:
        copy = copy_of(tmp_path / "here")
        extras.look()
        copy.update(Told(tmp_path), "ref")
        assert copied.read_text() == "loading weights µ\n"
        log.write_text("loading weights µ\nready\nno line's end")
        extras.look()
        extras.look(last=True)
    copy.update(Told(tmp_path), "ref", last=True)
    assert copied.read_text() == log.read_text()


def test_of_a_log_that_grew_much_its_end_is_told_and_that_something_is_left_out(tmp_path: Path):
    log = launches(tmp_path) / "quick-candidate-0.log"
    log.write_text("".join(f"line {number}\n" for number in range(50_000)))
    with ExtrasWriter(tmp_path, None) as extras:
        extras.look()
    copy = copy_of(tmp_path / "here")
    copy.update(Told(tmp_path), "ref", last=True)
    text = (tmp_path / "here" / "key" / "launches" / log.name).read_text()
    assert text.endswith("line 49999\n")
    assert "bytes are left out here]" in text.splitlines()[0]
    assert len(text) < LOOK_BYTES + 100


def test_all_logs_of_a_run_are_bounded_and_the_bound_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("experiments.executors.extras.LOGS_BYTES", 1000)
    for number in range(40):
        (launches(tmp_path) / f"quick-candidate-{number}.log").write_text("x" * 99 + "\n")
    with ExtrasWriter(tmp_path, None) as extras:
        extras.look(last=True)
    text = (tmp_path / EXTRAS_NAME).read_text()
    assert text.count("x" * 99) == 10
    assert "the rest stayed on its machine" in text.splitlines()[-1]


def test_another_worker_reads_on_and_what_was_written_and_not_counted_is_not_doubled(tmp_path: Path):
    """As after a kill between the two writes."""
    lines = [{"launch": "quick-control-0.log", "text": f"line {number}\n"} for number in range(20)]
    (tmp_path / EXTRAS_NAME).write_text("".join(json.dumps(each) + "\n" for each in lines[:10]))
    copy_of(tmp_path / "here").update(Told(tmp_path), "ref")
    copied = tmp_path / "here" / "key" / "launches" / "quick-control-0.log"
    with copied.open("a") as file:
        file.write("line 10\nli")
    (tmp_path / EXTRAS_NAME).write_text("".join(json.dumps(each) + "\n" for each in lines))
    copy_of(tmp_path / "here").update(Told(tmp_path), "ref", last=True)
    assert copied.read_text() == "".join(f"line {number}\n" for number in range(20))


HOSTILE = [
    "{not json",
    "[1, 2]",
    "7",
    '{"launch": "../../etc/passwd", "text": "x"}',
    '{"launch": "quick-control-0.log/../../../out.log", "text": "x"}',
    '{"launch": "quick-control-0.log", "text": 7}',
    '{"gpu": 7}',
    '{"gpu": {"at": "2999-01-01T00:00:00Z", "devices": []}}',
    '{"gpu": {"at": "yesterday", "devices": [{"name": "cuda:0"}]}}',
]


def test_lines_that_make_no_sense_are_left_out_and_write_nowhere_else(tmp_path: Path):
    good = json.dumps({"launch": "quick-control-0.log", "text": "good\n"})
    (tmp_path / EXTRAS_NAME).write_text("\n".join([*HOSTILE, good]) + "\n")
    copy_of(tmp_path / "here").update(Told(tmp_path), "ref", last=True)
    written = sorted(path.name for path in (tmp_path / "here").rglob("*") if path.is_file())
    assert written == ["extras.json", "quick-control-0.log"]


@given(st.lists(st.one_of(st.floats(), st.integers(), st.none()), min_size=3, max_size=3))
def test_a_figure_that_is_none_is_not_reported(figures: list[float | None]):
    """Whatever a machine of somebody else's tells, a reading is a figure of at least 0, or none."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        power, use, memory = figures
        device = {
            "name": "cuda:0",
            "kind": "gpu",
            "model": "M" * 500,
            "power_w": power,
            "utilization_percent": use,
            "memory_used_bytes": memory,
        }
        line = {"gpu": {"at": datetime.now(UTC).isoformat(), "devices": [device]}}
        (folder / EXTRAS_NAME).write_text(json.dumps(line) + "\n")
        copy_of(folder / "here").update(Told(folder), "ref", last=True)
        for sample in read_samples(folder / "here" / "key", 0)[0]:
            for told in (sample.devices[0].power_w, sample.devices[0].utilization_percent):
                assert told is None or 0 <= told < float("inf")
            assert len(sample.devices[0].model) <= 80


def test_means_of_five_minutes_are_taken_once_a_window_is_over_and_the_last_at_the_end(tmp_path: Path):
    begun = datetime.fromtimestamp(datetime.now(UTC).timestamp() // WINDOW_S * WINDOW_S - WINDOW_S, UTC)
    device = {"name": "cuda:0", "kind": "gpu", "model": "NVIDIA L4"}
    lines = [
        {"gpu": {"at": (begun + timedelta(seconds=at)).isoformat(), "devices": [device | {"power_w": watts}]}}
        for at, watts in ((10, 40.0), (20, 60.0), (WINDOW_S, 70.0))
    ]
    (tmp_path / EXTRAS_NAME).write_text("".join(json.dumps(each) + "\n" for each in lines))
    copy = copy_of(tmp_path / "here")
    copy.update(Told(tmp_path), "ref")
    [mean] = copy.take_means()
    assert (mean.host, mean.device, mean.samples, mean.power_w) == (HOST, DEVICE, 2, 50.0)
    assert copy.take_means() == []
    [last] = copy.take_means(last=True)
    assert (last.samples, last.power_w) == (1, 70.0)

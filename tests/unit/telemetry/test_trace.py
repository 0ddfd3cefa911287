"""Samples as lines, and recordings of them, with invented readings that say so."""

from __future__ import annotations

import gzip
from datetime import timedelta
from itertools import islice, pairwise
from pathlib import Path

import pytest

from configs.errors import UsageError
from experiments.telemetry.trace import (
    RECORDED_HOST,
    RECORDINGS,
    line_of,
    named_recording,
    read_trace,
    replayed,
    sample_of,
    write_trace,
)
from tests.unit.telemetry.synthetic import BEGUN, MODEL, cpu, gpu, sample, trace


def test_a_sample_comes_back_from_its_line_as_it_was() -> None:
    for each in (sample(0), sample(1.5, gpu(power_w=None, processes=None), cpu(), note="no <driver>")):
        assert sample_of(line_of(each)) == each
        assert "\n" not in line_of(each)


@pytest.mark.parametrize("line", ["", "{}", "[1]", "not json", '{"at": "x", "host": "h", "devices": []}'])
def test_any_other_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        sample_of(line)


def test_a_recording_names_neither_machine_nor_process_numbers(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    write_trace(file, trace(3).samples, "synthetic")
    text = file.read_text()
    assert "desk" not in text
    assert "4711" not in text
    found = read_trace(file)
    assert found.origin == "synthetic"
    assert [each.host for each in found.samples] == [RECORDED_HOST] * 3
    assert found.samples[0].devices[0].power_w == 430.0


def test_a_recording_says_what_it_is(tmp_path: Path) -> None:
    assert trace(1).title == f"Invented readings of {MODEL}, 2026-11-02 03:00:00 UTC"
    write_trace(tmp_path / "a", [sample(0, cpu())], "nvml")
    assert (
        read_trace(tmp_path / "a").title == "A recording of a machine without a GPU, 2026-11-02 03:00:00 UTC"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}\n",
        '{"format": "autoinfer device readings, 1", "origin": "nvml"}\n',
        '{"format": "autoinfer device readings, 1", "origin": "made up"}\n' + line_of(sample(0)),
        '{"format": "autoinfer device readings, 1", "origin": "nvml"}\n{"at": 3}\n',
        '{"format": "autoinfer device readings, 1", "origin": "nvml"}\n'
        + f"{line_of(sample(1))}\n{line_of(sample(1))}\n",
        "[]\n",
        "\x00\x01",
    ],
)
def test_a_file_that_is_no_recording_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a"
    file.write_text(text)
    with pytest.raises(UsageError, match="is no recording of device readings"):
        read_trace(file)


def test_a_recording_may_be_packed(tmp_path: Path) -> None:
    write_trace(tmp_path / "a", trace(3).samples, "synthetic")
    whole = gzip.compress((tmp_path / "a").read_bytes())
    (tmp_path / "a.gz").write_bytes(whole)
    assert read_trace(tmp_path / "a.gz") == read_trace(tmp_path / "a")
    for broken in (b"", b"junk", whole[:-20], whole[:60] + bytes(40) + whole[100:]):
        (tmp_path / "a.gz").write_bytes(broken)
        with pytest.raises(UsageError, match="is no recording of device readings"):
            read_trace(tmp_path / "a.gz")


def test_the_packaged_recording_is_of_a_real_gpu_at_work() -> None:
    found = read_trace(named_recording(Path("h200")))
    assert found.origin == "nvml"
    assert found.title == "A recording of NVIDIA H200, 2026-11-22 12:59:22 UTC"
    gpus = [each.devices[0] for each in found.samples]
    assert len(gpus) > 20 * 60
    assert {each.host for each in found.samples} == {RECORDED_HOST}
    assert max(each.power_w or 0 for each in gpus) > 500
    assert any(each.throttle for each in gpus)
    assert min(each.utilization_percent or 0 for each in gpus) == 0


def test_the_packaged_recording_of_two_gpus_has_both_at_work_in_a_campaign() -> None:
    found = read_trace(named_recording(Path("h200-x2")))
    assert found.origin == "nvml"
    assert found.title == "A recording of NVIDIA H200, 2026-11-23 04:55:28 UTC"
    assert len(found.samples) > 10 * 60
    for number in (0, 1):
        gpus = [each.devices[number] for each in found.samples]
        assert {each.name for each in gpus} == {f"cuda:{number}"}
        assert max(each.power_w or 0 for each in gpus) > 400
    assert {each.host for each in found.samples} == {RECORDED_HOST}


def test_the_trace_of_a_campaign_among_the_results_is_of_a_real_gpu_once_a_second() -> None:
    results = Path(__file__).parents[3] / "docs" / "results"
    path = results / "campaigns" / "h200-9b-devices.jsonl"
    found = read_trace(path)
    assert (found.origin, found.title) == ("nvml", "A recording of NVIDIA H200, 2026-11-23 14:36:51 UTC")
    assert len(found.samples) > 20 * 60
    gaps = [(after.at - before.at).total_seconds() for before, after in pairwise(found.samples)]
    assert 0.8 < min(gaps) <= max(gaps) < 1.2
    gpus = [each.devices[0] for each in found.samples]
    assert max(each.power_w or 0 for each in gpus) > 500
    assert any(each.throttle for each in gpus)
    told = (results / "README.md").read_text(encoding="utf-8")
    assert "(campaigns/h200-9b-devices.jsonl)" in told
    assert "`autoinfer dashboard --replay-devices FILE`" in told


def test_a_file_comes_before_a_packaged_recording_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert named_recording(Path("h200")) == RECORDINGS / "h200.jsonl.gz"
    for other in ("h100", "../recordings/h200", ""):
        assert named_recording(Path(other)) == Path(other)
    (tmp_path / "h200").touch()
    assert named_recording(Path("h200")) == Path("h200")


def test_a_missing_recording_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read: No such file"):
        read_trace(tmp_path / "nothing")


def test_a_replay_goes_on_from_now_round_after_round() -> None:
    begun = BEGUN + timedelta(days=3)
    found = list(islice(replayed(trace(3), begun), 7))
    assert [(each.at - begun).total_seconds() for each in found] == [0, 1, 2, 3, 4, 5, 6]
    assert [each.devices[0].power_w for each in found] == [430, 431, 432, 430, 431, 432, 430]

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.engines.port import PartTime
from experiments.job.journal import Journal, read_records
from experiments.job.records import Records
from experiments.job.result import (
    ArtifactRecord,
    Failure,
    HeldMemory,
    JobProgress,
    JobResult,
    StageRecord,
    StageTurn,
)
from experiments.measurement.evidence import Arm, Metric, Stage


def write_a_job(records: Records) -> None:
    records.started(1)
    records.progress(Stage.QUICK, 0, 2, "time launch pair 1")
    control = records.launch(Arm.CONTROL, 0, Stage.QUICK, "c" * 64, {"dtype": "bf16"}, {"host": "desk"}, 1.5)
    candidate = records.launch(Arm.CANDIDATE, 0, Stage.QUICK, "d" * 64, {}, {}, 2.5)
    records.block(
        control, 0, 0, [("p", 0, Metric.TTFT_MS, 9.25), ("p", 1, Metric.TPOT_MS, 0.1)], {}, {"load": 1}
    )
    records.block(candidate, 0, 1, [("p", 0, Metric.TTFT_MS, 7.0)], {}, {})
    records.progress(Stage.QUICK, 2, 2, "time launch pair 1")
    records.stage(StageRecord(Stage.QUICK, "2026-01-01T00:00:00+00:00", 3.0, "done", {"a": [1]}, "log"))
    records.artifact(ArtifactRecord("e" * 64, "evaluation", {"model": "m"}, {}, "/a", 5, 0.5))
    records.profile([PartTime("head", "gemm", 0.5, 100)])
    records.chosen({"knob": 1})
    records.failure("crashed", "It ended.")
    records.stopped("Enough.")
    records.memory(HeldMemory(1, 30, 2, 0.5, "It stays."), "cuda:0")
    records.end(12.5)


def test_what_was_told_is_what_is_read(tmp_path: Path):
    with Records(tmp_path / "records.jsonl") as records:
        write_a_job(records)
        told = records.fold.result()
    result = read_records(tmp_path / "records.jsonl")
    assert result == told
    control, candidate = result.launches
    assert control.values(Metric.TTFT_MS) == [9.25]
    assert control.environment["blocks"] == [{"block": 0, "position": 0, "before": {}, "after": {"load": 1}}]
    assert (candidate.arm, candidate.load_s, candidate.samples[0].position) == (Arm.CANDIDATE, 2.5, 1)
    assert result.failure == Failure("crashed", "It ended.")
    assert (result.stop_reason, result.wall_s, result.chosen) == ("Enough.", 12.5, {"knob": 1})
    assert result.profile[0].part == "head"
    assert result.memory == HeldMemory(1, 30, 2, 0.5, "It stays.")


def test_what_a_job_built_and_used_again_took_as_long_as_it_took_to_build(tmp_path: Path) -> None:
    """A candidate's checkpoint is prepared once more for its profile."""
    with Records(tmp_path / "records.jsonl") as records:
        write_a_job(records)
        records.artifact(ArtifactRecord("e" * 64, "evaluation", {"model": "m"}, {}, "/a", 5, 0.0))
    (artifact,) = read_records(tmp_path / "records.jsonl").artifacts
    assert artifact.build_s == 0.5


def test_what_was_left_out_before_blocks_were_told_is_the_whole_pair(tmp_path: Path):
    path = tmp_path / "records.jsonl"
    with Records(path) as records:
        write_a_job(records)
        records.left_out(0, 1)
    assert [len(each.samples) for each in read_records(path).launches] == [2, 1]
    with path.open("ab") as file:
        file.write(b'{"record":"left_out","at":"2026-01-01T00:00:00+00:00","pair":0}\n')
    assert read_records(path).launches == ()


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 3000))
def test_a_file_torn_anywhere_gives_its_complete_lines(tmp_path_factory: pytest.TempPathFactory, cut: int):
    folder = tmp_path_factory.mktemp("torn")
    with Records(folder / "whole") as records:
        write_a_job(records)
    whole = (folder / "whole").read_bytes()
    cut = min(cut, len(whole))
    (folder / "torn").write_bytes(whole[:cut])
    (folder / "complete").write_bytes(whole[: whole.rfind(b"\n", 0, cut) + 1])
    assert read_records(folder / "torn") == read_records(folder / "complete")


@settings(max_examples=30, deadline=None)
@given(step=st.integers(7, 400))
def test_following_a_growing_file_adds_up_to_reading_it_whole(
    tmp_path_factory: pytest.TempPathFactory, step: int
):
    folder = tmp_path_factory.mktemp("growing")
    with Records(folder / "whole") as records:
        write_a_job(records)
    whole = (folder / "whole").read_bytes()
    journal = Journal(folder / "growing")
    for end in range(0, len(whole) + step, step):
        (folder / "growing").write_bytes(whole[:end])
        journal.update()
    assert journal.result() == read_records(folder / "whole")
    assert journal.fold.ended
    pair = StageTurn(Stage.QUICK, "time launch pair 1")
    turns = (pair, replace(pair, outcome="done", wall_s=3.0))
    assert journal.fold.progress == JobProgress(Stage.QUICK, 2, 2, "time launch pair 1", turns=turns)


def test_a_missing_file_is_an_empty_result(tmp_path: Path):
    assert read_records(tmp_path / "none") == JobResult()


def test_lines_of_a_later_version_are_passed_over(tmp_path: Path):
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps({"record": "telepathy", "at": "now"}) + "\n")
    assert read_records(path) == JobResult()


def test_an_error_is_told_apart_from_a_failure(tmp_path: Path):
    with Records(tmp_path / "records.jsonl") as records:
        records.error("No space is left.")
    journal = Journal(tmp_path / "records.jsonl")
    journal.update()
    assert journal.fold.error == "No space is left."
    assert journal.result().failure is None
    assert not journal.fold.ended


def test_progress_says_which_arm_is_worked_on_and_prints_a_stage_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with Records(tmp_path / "records", echo=True) as records:
        records.progress(Stage.FULL, 0, 2, "time launch pair 1")
        records.progress(Stage.FULL, 0, 2, "time launch pair 1", Arm.CANDIDATE)
    journal = Journal(tmp_path / "records")
    journal.update()
    turns = (StageTurn(Stage.FULL, "time launch pair 1"),)
    progress = JobProgress(Stage.FULL, 0, 2, "time launch pair 1", Arm.CANDIDATE, turns)
    assert journal.fold.progress == progress
    assert capsys.readouterr().out.count("full: time launch pair 1") == 1


def test_what_a_gpu_held_is_said_in_the_log_with_what_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with Records(tmp_path / "records", echo=True) as records:
        records.memory(HeldMemory(500_000_000, 41_200_000_000, 5_000_000_000, 20.0, "It stays."), "cuda:1")
    assert capsys.readouterr().out == (
        "Memory of cuda:1: 0.5 GB held before, 41.2 GB at most, 5.0 GB after the last launch. It stays.\n"
    )


def test_each_pair_of_a_stage_begins_and_ends_and_a_stage_within_another_leaves_that_open(tmp_path: Path):
    def ended(stage: Stage, wall_s: float) -> StageRecord:
        return StageRecord(stage, "2026-01-01T00:00:00+00:00", wall_s, "done", {}, "log")

    with Records(tmp_path / "records") as records:
        records.progress(Stage.FULL, 0, 4, "time launch pair 2")
        records.progress(Stage.FURTHER, 0, 1, "time further workloads")
        records.stage(ended(Stage.FURTHER, 1.0))
        records.progress(Stage.FULL, 2, 4, "time launch pair 2")
        records.stage(ended(Stage.FULL, 2.0))
        records.progress(Stage.FULL, 0, 4, "time launch pair 3")
    journal = Journal(tmp_path / "records")
    journal.update()
    assert journal.fold.progress is not None
    assert [(each.text, each.outcome) for each in journal.fold.progress.turns] == [
        ("time launch pair 2", None),
        ("time further workloads", None),
        ("time further workloads", "done"),
        ("time launch pair 2", "done"),
        ("time launch pair 3", None),
    ]

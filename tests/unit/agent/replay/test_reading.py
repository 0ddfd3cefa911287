"""Tables as they are read, and the sentences for those that can't be replayed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.replay.prior import profiles_beside
from agent.replay.read import Asked, read_table
from agent.replay.world import problem_of
from configs.errors import UsageError
from tests.unit.agent.replay.synthetic import HEADER, LINES, table, written

FROZEN = Path(__file__).parents[4] / "docs" / "results" / "tables" / "h200-9b.csv"


def refused(path: Path, asked: Asked | None = None) -> str:
    with pytest.raises(UsageError) as error:
        read_table(path, asked)
    assert error.value.hint
    return error.value.message


def test_trial_0_is_the_first_line_and_the_best_keeps_the_quality(tmp_path: Path) -> None:
    found = table(tmp_path)
    assert (found.baseline_ms, found.best_ms) == (10.0, 4.0)
    assert found.best.configuration["serving.kernel"] == "green"
    assert [row.cause for row in found.rows if row.latency is None] == ["failed"]


def test_a_looser_quality_limit_lets_another_be_the_best(tmp_path: Path) -> None:
    assert table(tmp_path, Asked(quality_limit=0.25)).best_ms == 3.0


def test_a_row_may_be_marked_as_trial_0(tmp_path: Path) -> None:
    lines = [f"{line},{'yes' if k == 1 else ''}" for k, line in enumerate(LINES)]
    found = read_table(written(tmp_path, *lines, header=f"{HEADER},baseline"))
    assert found.baseline_ms == 9.0
    assert found.rows[0].configuration["serving.kernel"] == "blue"


def test_knobs_that_are_empty_hang_on_the_column_that_tells_when(tmp_path: Path) -> None:
    bits = table(tmp_path).space.knob("quantization.bits")
    assert bits.when == (("quantization.method", ("awq",)),)
    assert bits.values == (4, 8)


def test_samples_may_stand_one_a_line(tmp_path: Path) -> None:
    lines = ("red,1,10,60", "red,2,12,60", "blue,1,5,60", "blue,2,7,60")
    found = read_table(written(tmp_path, *lines, header="serving.kernel,sample,tpot_ms,run_s"))
    assert [row.latency.samples_ms for row in found.rows if row.latency] == [(10, 12), (5, 7)]


def test_a_mean_with_its_spread_is_as_good_as_samples(tmp_path: Path) -> None:
    header = "serving.kernel,tpot_ms_mean,tpot_ms_sd,tpot_ms_n,run_s"
    found = read_table(written(tmp_path, "red,10,1,5,60", "blue,5,0.5,5,60", header=header))
    assert [(row.latency.centre_ms, row.latency.sd_ms) for row in found.rows if row.latency] == [
        (10, 1),
        (5, 0.5),
    ]


def test_a_mean_without_a_spread_is_told_to_be_without_noise(tmp_path: Path) -> None:
    lines = ("red,10,1,5,60", "blue,5,,,60", "green,4,0,3,60")
    header = "serving.kernel,tpot_ms_mean,tpot_ms_sd,tpot_ms_n,run_s"
    found = read_table(written(tmp_path, *lines, header=header))
    assert [row.latency.count for row in found.rows if row.latency] == [5, 1, 3]
    assert found.left_out == (
        "2 of 3 configurations tell no spread of tpot_ms, and tell the same whenever they are measured.",
    )


@pytest.mark.parametrize("count", ["0", "2.5", "1e12"])
def test_what_is_no_count_of_samples_is_refused(tmp_path: Path, count: str) -> None:
    header = "serving.kernel,tpot_ms_mean,tpot_ms_sd,tpot_ms_n,run_s"
    said = refused(written(tmp_path, f"red,10,1,{count},60", "blue,5,1,5,60", header=header))
    assert "Line 2 has" in said
    assert "no number of samples" in said


def test_values_stand_in_an_order_that_the_order_of_lines_does_not_tell(tmp_path: Path) -> None:
    """A table may be sorted by what was measured."""
    lines = ("zed,0.5,10,60", "red,4,3,60", "blue,2,5,60", "green,1,9,60")
    header = "serving.kernel,serving.share,tpot_ms,run_s"
    found = read_table(written(tmp_path, *lines, header=header))
    turned = read_table(written(tmp_path, lines[0], *reversed(lines[1:]), header=header))
    assert problem_of(found) == problem_of(turned)
    assert found.space.knob("serving.kernel").values == ("blue", "green", "red", "zed")
    assert found.space.knob("serving.share").values == (0.5, 1.0, 2.0, 4.0)


@pytest.mark.parametrize("value", ["nan", "inf", "-Infinity"])
def test_a_knob_that_is_no_number_and_no_word_is_refused(tmp_path: Path, value: str) -> None:
    lines = (f"red,{value},10,60", "blue,2,9,60")
    said = refused(written(tmp_path, *lines, header="serving.kernel,serving.share,tpot_ms,run_s"))
    assert said == f"The column serving.share has {value!r}, which is no value of a knob."


@pytest.mark.parametrize(
    "line",
    [
        '{"hello": 1}',
        '{"kind": "profile", "identity": {}, "parts": [{"x": 1}]}',
        '{"kind": "profile", "identity": {}, "configuration": 5, "parts": [{"x": 1}]}',
    ],
)
def test_another_file_that_has_the_journals_name_is_told(tmp_path: Path, line: str) -> None:
    path = written(tmp_path, *LINES)
    path.with_suffix(".jsonl").write_text(line + "\n", encoding="utf-8")
    assert "made-up.jsonl has the name of the table's journal" in refused(path)


def test_a_step_by_part_is_of_the_runs_that_the_rows_are_of(tmp_path: Path) -> None:
    """Of the run that measured most, though a later one profiled the same."""
    told = {"identity": {"name": "card"}, "configuration": {"serving.kernel": "red"}, "load": "a"}
    cell = {"kind": "cell", "workload": {"key": "c1"}}
    once, again = (
        {"kind": "profile", "parts": [{"part": "all", "kind": "gemm", "time_ms": each, "weight_bytes": 0}]}
        for each in (5.0, 9.0)
    )
    begin, other = {"kind": "begin"}, cell | {"load": "b"}
    lines = [told | each for each in (begin, cell, other, once, begin, cell, again)]
    path = tmp_path / "made-up.csv"
    for kept, time_ms in ((lines, 5.0), (lines[-3:], 9.0)):
        path.with_suffix(".jsonl").write_text("".join(json.dumps(each) + "\n" for each in kept))
        assert [part.time_ms for parts in profiles_beside(path).values() for part in parts] == [time_ms]


def test_the_frozen_table_of_a_gpu_is_read_with_its_space_and_its_profiles() -> None:
    found = read_table(FROZEN, Asked(where={"concurrency": "1", "prompt_tokens": "512"}))
    assert len(found.rows) == 14
    assert found.prior.shape is not None
    assert found.prior.shape.name == "qwen3.5-9b"
    assert all(row.profile for row in found.rows)
    assert found.rows[1].resolved["linear_kernel"] == "MacheteLinearKernel"
    assert found.left_out == ("Ran without a tpot_ms and left out: 6 (lines 98, 106, 114, 122, 130, 138).",)


def test_workloads_in_one_file_are_asked_to_be_chosen_from() -> None:
    assert "they differ in concurrency" in refused(FROZEN)
    assert "'2' in the column concurrency" in refused(FROZEN, Asked(where={"concurrency": "2"}))


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (LINES[:1], "one configuration"),
        ((), "no lines"),
        (tuple(f"none,,{name},,1,no,0,60" for name in ("red", "blue")), "None of the 2 configurations"),
        (("none,,red,,1,no,0,60", LINES[1]), "Trial 0 of made-up did not run"),
        (("none,,red,5,1,yes,0,60", "none,,blue,5,1,yes,0,60"), "there is nothing to find"),
        (("none,,red,4,1,yes,0,60", "none,,blue,5,1,yes,0,60"), "is faster than trial 0"),
        (("none,,red,nan,1,yes,0,60", LINES[1]), "Line 2 has 'nan' in the column tpot_ms"),
        (("none,,red,1e308,1,yes,0,60", LINES[1]), "Line 2 has '1e308'"),
        ((LINES[0], "none,,blue,,1,no,0,60"), "trial 0 alone ran"),
        (("none,,red,10 inf,1,yes,0,60", LINES[1]), "Line 2 has 'inf'"),
        (("none,,red,0,1,yes,0,60", LINES[1]), "the latency 0"),
        ((LINES[0], LINES[0], LINES[1]), "Lines 2 and 3 are the same"),
        ((LINES[0], LINES[0].replace("10.0", "11.0"), LINES[1]), "contradict each other in tpot_ms"),
        ((LINES[0], "none,,blue,9,1,no,0,60"), "contradicts itself"),
        ((LINES[0], "none,,blue,9,1,maybe,0,60"), "'maybe' in the column feasible"),
        ((LINES[0], "none,,blue,9,1,yes,0,-3"), "'-3' in the column run_s"),
        ((LINES[0], "none,,blue,9"), "has 4 fields"),
        (("none,,red,10,1,yes,0,", "none,,blue,9,1,yes,0,"), "what a trial takes"),
        (("none,,red,,1,yes,0,60", *LINES[1:]), "has no latency"),
    ],
)
def test_what_can_not_be_replayed_is_told_in_a_sentence(
    tmp_path: Path, lines: tuple[str, ...], why: str
) -> None:
    assert why in refused(written(tmp_path, *lines))


def test_a_limit_of_quality_below_trial_0_is_refused() -> None:
    with pytest.raises(UsageError, match="trial 0 itself would not keep it"):
        Asked(quality_limit=-0.05)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "has no lines"),
        (b"serving.kernel,tpot_ms,run_s\n", "has no lines"),
        (b"serving.kernel;tpot_ms;run_s\nred;10;60\nblue;9;60\n", "columns that semicolons separate"),
        (b"serving.kernel\ttpot_ms\trun_s\nred\t10\t60\n", "columns that tabs separate"),
        (b"\x7fELF\x02\xd0\xff", "no text in UTF-8"),
        (b'serving.kernel,tpot_ms,run_s\n"red,10,60\n', "is no CSV"),
        (b"serving.kernel,tpot_ms,run_s\n" + b"red,10,60\n" * 100_001, "more than 100,000 lines"),
        (
            b"serving.kernel,tpot_ms,run_s\n" + b"".join(b"k%d,10,60\n" % k for k in range(1001)),
            "1,001 different values",
        ),
    ],
)
def test_a_file_that_is_no_table_is_told_so(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "made-up.csv"
    path.write_bytes(content)
    assert why in refused(path)


def test_a_file_of_many_megabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "made-up.csv"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    assert "larger than 64 MiB" in refused(path)


def test_seconds_of_compiling_need_a_name_of_what_is_compiled(tmp_path: Path) -> None:
    header = "serving.kernel,tpot_ms,run_s,compile_build,compile_s"
    assert "compile_s and no compile_build" in refused(
        written(tmp_path, "red,10,60,,", "blue,9,60,,30", header=header)
    )


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("kernel,tpot_ms,run_s", "no knob columns"),
        ("serving.kernel,tpot_ms,seconds", "no column run_s"),
        ("serving.kernel,time,run_s", "no latency"),
        ("serving.kernel,tpot_ms,tpot_ms", "'tpot_ms' twice"),
    ],
)
def test_missing_columns_are_named(tmp_path: Path, header: str, why: str) -> None:
    assert why in refused(written(tmp_path, "red,10,60", "blue,9,60", header=header))


def test_an_empty_field_that_nothing_explains_is_refused(tmp_path: Path) -> None:
    lines = ("red,4,10,60", "red,,9,60", "blue,4,8,60", "blue,,7,60")
    path = written(tmp_path, *lines, header="serving.kernel,serving.lanes,tpot_ms,run_s")
    assert "no other column tells" in refused(path)


def test_another_metric_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Latencies that it has: tpot_ms"):
        table(tmp_path, Asked(metric="ttft_ms"))

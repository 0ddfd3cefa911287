"""Kernels timed alone are shown by format, the fastest first, with what was refused and why."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from agent.campaign.learning.kernels_told import kernels_sentence
from cli.console.output import PLAIN_WIDTH
from cli.sheets.kernel_timings import print_kernel_timings
from experiments.engines.kernel_timings import HEAD
from experiments.job.kernel_timing import TIMINGS
from knowledge.queries.measured.kernel_timings import KernelTimingsView, kernel_timings
from knowledge.queries.measured.stages import StageView
from tests.recorded.kernel_timings import recorded


def stage(**detail: object) -> StageView:
    return StageView(
        stage="kernels",
        attempt=1,
        started_at=datetime(2026, 11, 25, tzinfo=UTC),
        wall_s=31.0,
        outcome=None,
        detail=dict(detail),
        log_path=None,
    )


def shown() -> KernelTimingsView:
    view = kernel_timings([stage(artifact="ab" * 32, **{TIMINGS: recorded().data()})])
    assert view is not None
    return view


def test_sixteen_bits_come_first_and_then_the_fastest_kernel_of_each_format() -> None:
    rows = shown().rows
    assert [each.value for each in rows] == ["—", "humming", "marlin", "auto", "machete", "triton", "conch"]
    assert (rows[0].stored, rows[1].stored) == ("16 bits", "4 bits, groups of 128")
    assert (rows[0].share_of_plain, rows[1].share_of_plain) == (1.0, pytest.approx(1983 / 3700))
    assert (rows[1].products_ms, rows[1].head_ms) == (pytest.approx(1.983), pytest.approx(0.163))
    assert rows[3].kernel == "MacheteLinearKernel"


def test_what_was_refused_has_its_reason_and_no_time() -> None:
    row = shown().rows[-1]
    assert (row.refused, row.products_ms, row.share_of_plain) == (True, None, None)
    assert "conch-triton-kernels is not installed" in str(row.note)


@pytest.mark.parametrize("why", ["refused", "untimed"])
def test_an_output_head_without_a_time_has_its_reason_too(why: str) -> None:
    timings = recorded()
    first = timings.packed[0]
    told = "The head takes 2 GB, and 1 GB are free."
    parts = tuple(
        replace(each, us=None, **{why: told}) if each.part == HEAD else each for each in first.parts
    )
    one = replace(timings, packed=(replace(first, parts=parts), *timings.packed[1:]))
    view = kernel_timings([stage(artifact="ab" * 32, **{TIMINGS: one.data()})])
    assert view is not None
    (row,) = (each for each in view.rows if each.head_note is not None)
    assert (row.head_ms, row.note, row.head_note) == (None, None, told)
    assert row.products_ms is not None
    assert view.mark(row.head_note) == 1


def test_each_reason_is_told_once_and_kernels_stand_by_their_format() -> None:
    timings = recorded()
    fast, slow, *_ = timings.packed
    limit = "The limit of 1 min 15 s was reached with 7 of 22 left."
    cut = tuple(replace(each, us=None, untimed=limit) for each in fast.parts)
    others = tuple(
        replace(each, knobs={**each.knobs, "quantization.bits": 8}, parts=cut) for each in (fast, slow)
    )
    view = kernel_timings([stage(**{TIMINGS: replace(timings, packed=(*timings.packed, *others)).data()})])
    assert view is not None
    assert [each.stored for each in view.formats] == [
        "16 bits",
        "4 bits, groups of 128",
        "8 bits, groups of 128",
    ]
    plain, four, eight = view.formats
    assert (plain.is_plain, four.is_plain, len(four.timed), len(eight.timed)) == (True, False, 5, 0)
    assert [(row.value, row.no_time) for row in four.untimed] == [("conch", "refused")]
    assert [row.no_time for row in eight.untimed] == ["not timed"] * 2
    assert [view.mark(row.note) for row in (*four.untimed, *eight.untimed)] == [1, 2, 2]
    assert (len(view.notes), view.notes[1], view.mark(None)) == (2, limit, None)


def test_the_basis_says_how_it_was_timed_and_where_raw_times_are() -> None:
    view = shown()
    assert (view.took_s, view.failed) == (31.0, None)
    assert view.basis == (
        "made-up weights at the model's shapes, nothing else running; 1 row of input; "
        "made of profiled steps; raw times in A-abababababab"
    )


def test_a_timing_that_failed_says_why_and_one_that_was_not_begun_shows_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = kernel_timings([stage(kind="crashed", cause="No module named 'torch'.")])
    assert view is not None
    assert (view.rows, view.failed) == ((), "No module named 'torch'.")
    print_kernel_timings(view)
    assert "could not be timed: No module named 'torch'." in capsys.readouterr().out
    assert kernel_timings([]) is None


def test_first_calls_of_all_timed_products_are_summed_and_it_is_said_why_they_matter(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = recorded()
    slow = [replace(each, first_call_s=12.5) for each in told.packed[1].parts]
    slow[-1] = replace(slow[-1], us=None, untimed="it hung", first_call_s=0.0)
    first, second, *others = told.packed
    timings = replace(told, packed=(first, replace(second, parts=tuple(slow)), *others))
    view = kernel_timings([stage(**{TIMINGS: timings.data()})])
    assert view is not None
    shown = {each.value: each.first_calls_s for each in view.rows}
    assert (shown["humming"], shown["marlin"], shown["conch"]) == (75.0, 0.0, None)
    assert "compiled for every shape" in view.first_calls
    print_kernel_timings(view)
    printed = " ".join(capsys.readouterr().out.split())
    assert "first calls, s" in printed
    assert " 75.0 " in printed
    assert view.first_calls in printed


def test_what_was_timed_before_is_shown_with_why_the_rest_could_not_be_timed_now() -> None:
    timings = replace(recorded(), cut_off="The limit of 1 min 15 s was reached with 3 of 21 left.", rounds=2)
    view = kernel_timings([stage(kind="crashed", cause="No torch.", **{TIMINGS: timings.data()})])
    assert view is not None
    assert (len(view.rows), view.failed) == (7, None)
    assert (
        "; timed by 2 campaigns, one after the other; The limit of 1 min 15 s was reached with 3 of 21"
        in view.basis
    )
    assert view.basis.endswith("What an earlier timing left could not be timed now: No torch")
    sentence = kernels_sentence(timings, "No torch.")
    assert sentence.startswith("Kernels timed alone")
    assert sentence.endswith("3 of 21 left. What an earlier timing left could not be timed now: No torch.")


def test_the_printed_table_has_every_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    print_kernel_timings(shown())
    text = capsys.readouterr().out
    for words in ("16 bits", "humming", "1.983", "54 %", "refused, note 1", "note 1  Conch", "raw times in"):
        assert words in text


def test_the_printed_table_is_one_even_with_the_longest_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(PLAIN_WIDTH))
    timings = recorded()
    asymmetric = [
        replace(each, knobs={**each.knobs, "quantization.symmetric": False}) for each in timings.packed
    ]
    view = kernel_timings([stage(**{TIMINGS: replace(timings, packed=tuple(asymmetric)).data()})])
    assert view is not None
    print_kernel_timings(view)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("weights, kernel  ")
    assert lines[0].endswith("products, ms  of 16 bits  head, ms  first calls, s  what ran")
    assert "4 bits, groups of 128, zero points" in lines
    assert max(len(line) for line in lines) <= PLAIN_WIDTH
    assert " ".join(line.split()[0] for line in lines[3:9]) == "humming marlin auto machete triton conch"

"""What is read from a CSV of times, and what is refused with a sentence and what to do."""

import gzip
import tracemalloc
from collections.abc import Callable
from io import BytesIO

import pytest

from agent.judge.from_csv.rows import LONGEST_LINE_BYTES, read_rows
from agent.judge.from_csv.sorting import pair_table
from configs.errors import EXIT_USAGE, UsageError
from experiments.measurement.evidence import Metric
from tests.unit.agent.judge.csv_tables import HEADER, Fields, Measured, as_csv, changed, stream

ROWS = Measured().rows()
BARE = ("arm", "launch", "block", "prompt", "metric", "value")


def refusal(text: bytes | str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        pair_table(read_rows(stream(text)))
    error = caught.value
    assert error.exit_code == EXIT_USAGE
    assert error.message.endswith(".")
    assert error.hint
    return error


def each(change: Callable[[Fields], Fields]) -> bytes:
    return as_csv([change(row) for row in ROWS])


def in_seconds(row: Fields) -> Fields:
    return changed(row, value=str(float(row[5]) / 1000))


def first(**fields: str) -> bytes:
    return as_csv([changed(ROWS[0], **fields), *ROWS[1:]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "The file is empty"),
        (b"\n\n", "The file is empty"),
        (b"arm,launch,block,prompt,metric,value\n", "a header and no rows"),
        (as_csv(ROWS[1:], ROWS[0]), "no header of such a table"),
        (as_csv(ROWS).replace(b",", b";"), "no header of such a table"),
        (b"a letter to my aunt\nabout nothing\n", "no header of such a table"),
        (as_csv([row[:5] for row in ROWS], BARE[:5]), "The header lacks value"),
        (as_csv([(*row, "x") for row in ROWS], (*HEADER, "gpu")), "not known: gpu"),
        (as_csv([(*row, "0") for row in ROWS], (*HEADER, "seq")), "names seq twice"),
        (as_csv([ROWS[0][:6], *ROWS[1:]]), "Line 2 has 6 fields, and the header has 7"),
        (as_csv([("here",), *ROWS]), "Line 2 has 1 field, and the header has 7"),
        (as_csv(ROWS) + b'control,0,0,"p0,tpot_ms,1,0', "is not CSV: unexpected end of data"),
        (gzip.compress(as_csv(ROWS)), "packed (gzip)"),
        (as_csv(ROWS).decode().encode("utf-16"), "UTF-16"),
        (as_csv(ROWS) + "control,0,0,café,tpot_ms,1,0\n".encode("latin1"), "Line 66 is not UTF-8"),
        (b"\x7fELF\0\0\0", "no text"),
        (b"x" * (LONGEST_LINE_BYTES + 1), "longer than"),
        (as_csv(ROWS) + b'control,0,0,"p"0,tpot_ms,1,0\n', "Line 66 is not CSV"),
        (as_csv(ROWS).replace(b"\n", b"\r"), "Line 1 holds a carriage return"),
        (first(value="nan"), "Line 2: the value 'nan' of tpot_ms is not finite"),
        (first(value="-inf"), "is not finite"),
        (first(value="1e999"), "must be a number above 0"),
        (first(value="0"), "Line 2: the value '0' of tpot_ms must be a number above 0"),
        (first(value="0.0"), "above 0"),
        (first(value="-3.5"), "above 0"),
        (first(value=""), "is no number"),
        (first(value="12 ms"), "is no number"),
        (first(value="1_000"), "is no number"),
        (first(arm="baseline"), "'baseline' is no arm"),
        (first(launch="one"), "the launch 'one' is no whole number"),
        (first(launch="-1"), "the launch '-1' is no whole number"),
        (first(block="1.5"), "the block '1.5' is no whole number"),
        (first(seq="9" * 19), "the seq"),
        (first(prompt=" "), "names no prompt"),
        (each(lambda row: changed(row, metric="latency")), "there is no metric 'latency'"),
        (each(lambda row: changed(row, metric="nll_bits")), "nll_bits is no metric of time"),
        (each(lambda row: changed(row, metric="tpot_s")), "'tpot_s' (line 2) is not in the unit"),
        (
            as_csv([*ROWS, *(changed(in_seconds(row), metric="tpot_s") for row in ROWS)]),
            "mixes units: 'tpot_ms' (line 2) and 'tpot_s' (line 66)",
        ),
        (
            as_csv([*(changed(in_seconds(row), metric="tpot_s") for row in ROWS), *ROWS]),
            "mixes units: 'tpot_ms' (line 66) and 'tpot_s' (line 2)",
        ),
        (each(lambda row: in_seconds(row) if row[0] == "candidate" else row), "mixes units: tpot_ms is 0.0"),
        (each(lambda row: in_seconds(row) if row[1] == "2" else row), "mixes units: tpot_ms is 0.0"),
        (as_csv([*ROWS, ROWS[5]]), "Lines 7 and 66 are of one value: control launch 0, block 2"),
        (
            as_csv([(*row[:6],) for row in Measured(values=2).rows()], BARE),
            "Lines 2 and 3 are of one value",
        ),
        (as_csv([row for row in ROWS if row[0] == "control"]), "holds no candidate"),
        (as_csv([row for row in ROWS if row[0] == "candidate"]), "holds no control"),
        (as_csv([row for row in ROWS if row[1] == "0"]), "Only one launch of each arm"),
        (as_csv([row for row in ROWS if row[:2] != ("control", "3")]), "Launch 3 of the candidate has no"),
        (as_csv([row for row in ROWS if row[:3] != ("candidate", "1", "2")]), "Block 2 of launch 1"),
        (
            as_csv([row for row in ROWS if row[:4] != ("candidate", "1", "2", "p1")]),
            "different prompts in launch 1, block 2: 'p1' in the control alone",
        ),
    ],
)
def test_what_is_no_table_of_two_arms_is_refused_by_name(text: bytes, words: str) -> None:
    assert words in refusal(text).message


def test_units_that_differ_within_a_block_are_refused() -> None:
    rows = Measured(prompts=9).rows()
    mixed = [in_seconds(row) if (row[0], row[3]) == ("control", "p0") else row for row in rows]
    assert "16 of 144 prompts differ more than 300 times" in refusal(as_csv(mixed)).message


def test_names_that_are_no_metrics_take_no_memory_however_many_there_are() -> None:
    """Each of 5,000 rows has a name of its own, of a kilobyte; a later one is TPOT in seconds."""
    names = [f"{number:01000}" for number in range(5000)]
    text = "\n".join([",".join(BARE), *(f"control,0,0,p,{name},1" for name in [*names, "tpot_s"])])
    held = BytesIO(text.encode())
    tracemalloc.start()
    with pytest.raises(UsageError, match="'tpot_s' \\(line 5002\\) is not in the unit"):
        list(read_rows(held))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e6


def test_a_request_that_hung_is_no_other_unit() -> None:
    rows = [changed(ROWS[0], value="20000"), *ROWS[1:]]
    rows += [row for row in Measured(prompts=9).rows() if row[3] not in ("p0", "p1")]
    assert len(pair_table(read_rows(stream(as_csv(rows)))).effects[Metric.TPOT_MS]) == 4


def test_columns_may_stand_in_any_order_and_quoted_and_with_a_byte_order_mark() -> None:
    plain = pair_table(read_rows(stream(as_csv(ROWS))))
    turned = as_csv([row[::-1] for row in ROWS], HEADER[::-1])
    assert pair_table(read_rows(stream(turned))) == plain
    quoted = as_csv([(*row[:3], f'"{row[3]}"', *row[4:]) for row in ROWS])
    assert (
        pair_table(read_rows(stream(b"\xef\xbb\xbf" + quoted.replace(b"\n", b"\r\n") + b"\r\n , , \r\n")))
        == plain
    )


def test_a_table_without_seq_is_read_where_every_request_has_one_value() -> None:
    without = as_csv([row[:6] for row in ROWS], BARE)
    assert pair_table(read_rows(stream(without))) == pair_table(read_rows(stream(as_csv(ROWS))))


def test_the_last_pairs_are_the_validation_when_asked_for() -> None:
    effects = pair_table(read_rows(stream(as_csv(ROWS))), 2).effects[Metric.TPOT_MS]
    assert [pair.validation for pair in effects] == [False, False, True, True]
    assert [pair.index for pair in effects] == [0, 1, 2, 3]

"""Rounds against the server whose times are known: what they ask and note, and what can be asked for."""

import json
import random
from pathlib import Path

import pytest

from tests.benchmarks import client_bias
from tests.benchmarks.client_bias import LATE_SHARE_OF_STEP, Pace, main, of_run, pace_of, seen
from tests.benchmarks.client_bias_tables import biases, table, ways_table
from tests.benchmarks.paced_process import trace_of
from tests.benchmarks.paced_server import Answered, text_of, tokens_of
from tests.benchmarks.serving_arms import Load
from tests.benchmarks.serving_comparison import WITHIN

RESULTS = Path(__file__).parents[3] / "docs" / "results"

LOAD = Load(requests=3, concurrency=2, prompt_tokens=4, new_tokens=3)


def test_a_timetable_is_the_same_for_the_same_round_and_another_for_the_next() -> None:
    pace = Pace(6.0, 100.0, 300.0)
    once, again, after = (pace.table(LOAD, seed) for seed in (0, 0, 1))
    assert once == again != after
    assert len(once.first_ms) == LOAD.requests
    assert all(100 <= each <= 300 for each in once.first_ms)


def test_the_pace_is_by_how_many_are_at_once_where_none_is_asked_for() -> None:
    assert pace_of(1, None, None) == pace_of(4, None, None) == Pace(5.3, 60, 120)
    assert pace_of(64, None, None) == Pace(7.5, 100, 300)
    assert pace_of(64, 20.0, (10.0, 20.0)) == Pace(20.0, 10.0, 20.0)


def test_the_servers_lateness_and_the_ways_are_told_of_each_token() -> None:
    noted = [
        Answered("a-0", arrived_s=10.0, due_s=[10.1, 10.11, 10.12], written_s=[10.1, 10.1105, 10.122]),
        Answered("a-1", arrived_s=20.0, due_s=[20.1, 20.11, 20.12], written_s=[20.1, 20.1105, 20.122]),
    ]
    read = [
        Answered(each.name, each.arrived_s - 0.001, written_s=[at_s + 0.003 for at_s in each.written_s])
        for each in noted
    ]
    found = seen(Pace(10.0, 100.0, 100.0), noted, [trace_of(each) for each in read])
    assert found.late.median == pytest.approx(0.5)
    assert found.late.most == pytest.approx(2.0)
    assert found.late_share == pytest.approx(1 / 3, abs=1e-4)  # of 0, 0.5 and 2 ms
    assert LATE_SHARE_OF_STEP == 0.1
    assert found.there.median == pytest.approx(1.0)
    assert (found.back.median, found.back.most) == (pytest.approx(3.0), pytest.approx(3.0))


def test_requests_of_a_run_are_found_by_name_in_their_order_and_warm_ups_are_none_of_them() -> None:
    noted = [Answered("", 0.0), Answered("bench-x-10", 1.0), Answered("bench-x-9", 2.0)]
    assert [each.arrived_s for each in of_run(noted, None, 2)] == [2.0, 1.0]
    assert [each.arrived_s for each in of_run(noted, ["bench-x-10"], 1)] == [1.0]
    with pytest.raises(RuntimeError, match=r"noted 2 requests of the 3"):
        of_run(noted, None, 3)


def test_the_server_reads_of_its_own_texts_the_tokens_that_they_stand_for() -> None:
    tokens = random.Random(1).choices(range(50_000), k=100)
    assert tokens_of(text_of(tokens)) == tokens_of(tokens) == tokens
    assert len(tokens_of("text of a tokenizer of others")) == 6


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("--table missing.json", "--table: missing.json can't be read: No such file or directory"),
        ("--table .", "--table: . can't be read: Is a directory"),
        ("--table page.md", "--table: page.md is none that --json wrote"),
        ("--table other.json", "--table: other.json is none that --json wrote"),
        ("--table begun.json", "--table: begun.json has no round in which both have asked"),
        ("--json missing/told.json", "argument --json: there is no folder missing: make it first"),
        ("--json .", "argument --json: . is a folder: give a file in it"),
        ("--new-tokens 1", "argument --new-tokens: 1 has no time between tokens: give 2 or more"),
        ("--concurrency 4 0", "argument --concurrency: 0 is none: give 1 or more"),
        ("--prompt-tokens 0", "argument --prompt-tokens: 0 is none: give 1 or more"),
        ("--rounds 0", "argument --rounds: 0 is none: give 1 or more"),
        ("--step-ms 4 0", "argument --step-ms: 0 is none: give a number above 0"),
        ("--limit nan", "argument --limit: nan is none: give a number above 0"),
        (
            "--first-token-ms 9 3",
            "--first-token-ms: 9 to 3 are no times: give 0 or more, the lower first",
        ),
    ],
)
def test_what_cant_be_measured_or_written_is_refused_in_a_sentence_before_anything_runs(
    asked: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(client_bias, "vllm_python", lambda: pytest.fail("it looked for vLLM"))
    Path("page.md").write_text("# A page", encoding="utf-8")
    Path("other.json").write_text('{"runs": [{}]}', encoding="utf-8")
    Path("begun.json").write_text('{"runs": []}', encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(asked.split())
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"error: {told}")


def test_a_file_that_is_asked_for_is_not_begun_before_anything_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_bias, "vllm_python", lambda: None)
    assert main(["--json", str(tmp_path / "told.json")]) == 1
    assert not list(tmp_path.iterdir())


def test_the_tables_of_a_file_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    file = RESULTS / "tables" / "client-bias-faster.json"
    assert main(["--table", str(file)]) == 0
    kept = json.loads(file.read_text(encoding="utf-8"))["runs"]
    assert capsys.readouterr().out == f"{table(biases(kept), WITHIN)}\n\n{ways_table(kept)}\n"

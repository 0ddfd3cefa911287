"""An archive of journals says what they said, in less."""

from typing import Any

import pytest

from agent.tables.archive import archived
from agent.tables.cell import figures

REQUESTS = [
    {"start_us": 0, "ttft_us": 20_000, "gaps_us": [5_000, 5_200, 0, 5_100], "steps": 3},
    {"start_us": 300, "ttft_us": 21_000, "gaps_us": [5_000, 5_300]},
]


def cell(concurrency: int) -> dict[str, Any]:
    return {"kind": "cell", "load": "a", "workload": {"concurrency": concurrency}, "requests": REQUESTS}


def test_all_figures_but_gaps_follow_from_what_is_kept() -> None:
    (kept,) = archived([[cell(16)]], gaps_up_to=4)
    assert "gaps_us" not in str(kept)
    before, after = figures(REQUESTS), figures(kept["requests"])
    assert after.itl_ms == ()
    for name in ("ttft_ms", "tpot_ms", "e2el_ms", "step_ms", "tokens_per_s"):
        assert getattr(after, name) == pytest.approx(getattr(before, name)), name


def test_what_a_gpu_did_beside_a_cell_is_kept_with_the_attempts_that_were_replaced() -> None:
    did = {"power_w": 400.0, "throttled": None, "repeated": [{"power_w": 300.0, "throttled": "heat"}]}
    (kept,) = archived([[cell(16) | {"gpu": did}]], gaps_up_to=4)
    assert kept["gpu"] == did


def test_gaps_at_low_concurrency_and_other_lines_stay_as_they_are() -> None:
    lines = [{"kind": "load", "load": "a"}, cell(4)]
    assert list(archived([lines], gaps_up_to=4)) == lines


def test_a_line_that_comes_again_is_there_once_even_from_an_archive() -> None:
    journal = [{"kind": "load", "load": "a"}, cell(16)]
    archive = list(archived([journal], gaps_up_to=4))
    new = {"kind": "load", "load": "b"}
    assert list(archived([archive, [*journal, new]], gaps_up_to=4)) == [*archive, new]


def test_a_command_keeps_no_folders_of_the_machine_it_ran_on() -> None:
    begin = {
        "kind": "begin",
        "command": "autoinfer --data-dir /some/where/d table measure my/grid.yaml --out /x/9b",
    }
    (kept,) = archived([[begin]], gaps_up_to=4)
    assert kept["command"] == "autoinfer --data-dir d table measure grid.yaml --out 9b"


def test_what_an_engine_tells_keeps_no_folders_either() -> None:
    failed = {
        "kind": "failure",
        "failure": {"kind": "checkpoint", "cause": "No /a/b-1/c.json: 3/4 read."},
    }
    loaded = {"kind": "load", "resolved": {"drafter": {"folder": "/x/y/drafter"}, "layers": ["a/b", "/d/e"]}}
    profiled = {"kind": "profile", "prompt": {"failure": "No /a/b-1/trace.json."}}
    kept = list(archived([[failed, loaded, profiled]], gaps_up_to=4))
    assert kept[0]["failure"]["cause"] == "No c.json: 3/4 read."
    assert kept[1]["resolved"] == {"drafter": {"folder": "drafter"}, "layers": ["a/b", "e"]}
    assert kept[2]["prompt"] == {"failure": "No trace.json."}

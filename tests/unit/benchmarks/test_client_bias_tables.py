"""What rounds against the server whose times are known say, and the page that has it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.client_bias_tables import ARMS, BENCH, OURS, biases, table, ways_table
from tests.benchmarks.serving_arms import Figures, Load
from tests.benchmarks.serving_comparison import WITHIN

RESULTS = Path(__file__).parents[3] / "docs" / "results"

LOAD = Load(requests=3, concurrency=2, prompt_tokens=4, new_tokens=3)

SPREAD = {"median": 0.1, "p99": 0.2, "most": 0.3}
SEEN = {"late": SPREAD, "there": SPREAD, "back": SPREAD, "late_share": 0.0}


def run(arm: str, turn: int, told: float, recorded: float) -> Mapping[str, Any]:
    names = [field.name for field in fields(Figures)]
    return {
        "arm": arm,
        "round": turn,
        "load": asdict(LOAD),
        "pace": {"step_ms": 6.0},
        "told": dict.fromkeys(names, told),
        "recorded": dict.fromkeys(names, recorded),
        "seen": SEEN,
    }


def test_a_bias_is_of_what_a_client_told_from_what_the_server_noted_of_the_same_run() -> None:
    runs = [run(OURS, turn, 1.1, 1.0) for turn in range(2)] + [
        run(BENCH, turn, 2.2, 1.1) for turn in range(2)
    ]
    found = biases([*runs, run(OURS, 2, 100.0, 1.0)])
    assert [each.metric for each in found] == [field.name for field in fields(Figures)]
    for each in found:
        assert each.off[OURS].value == pytest.approx(0.1)
        assert each.off[BENCH].value == pytest.approx(1.0)
        assert each.apart.value == pytest.approx(-0.5)
        assert each.off[OURS].n == each.apart.n == 2


def test_nothing_is_said_of_a_round_that_only_one_has_asked_in() -> None:
    alone = [run(OURS, 0, 1.0, 1.0)]
    assert biases(alone) == []
    assert len(ways_table(alone).splitlines()) == 2


@pytest.mark.parametrize("name", ["client-bias", "client-bias-faster", "client-bias-h200"])
def test_the_page_has_the_tables_of_what_was_measured(name: str) -> None:
    kept = json.loads((RESULTS / "tables" / f"{name}.json").read_text(encoding="utf-8"))
    told = (RESULTS / "client-bias.md").read_text(encoding="utf-8")
    assert {each["arm"] for each in kept["runs"]} == {*ARMS}
    assert table(biases(kept["runs"]), WITHIN) in told
    assert ways_table(kept["runs"]) in told

"""What rounds of the comparison with `vllm bench serve` settle, and what they leave open."""

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from tests.benchmarks.serving_arms import Figures
from tests.benchmarks.serving_comparison import (
    ARMS,
    BENCH,
    DRIVER,
    HTTP,
    WITHIN,
    compared,
    difference,
    main,
    of_all_servers,
    said_of,
    table,
)

RESULTS = Path(__file__).parents[3] / "docs" / "results"


def run(arm: str, turn: int, value: float) -> Mapping[str, Any]:
    figures = {field.name: value for field in fields(Figures)}
    return {"arm": arm, "round": turn, "load": {"concurrency": 4}, "figures": figures}


def test_a_difference_is_of_the_rounds_ratios_with_students_interval_of_their_logarithms() -> None:
    found = difference([1.02, 1.05, 2.0], [1.0, 1.0, 2.0])
    logs = [math.log(1.02), math.log(1.05), 0.0]
    low, high = stats.t.interval(0.95, 2, loc=sum(logs) / 3, scale=stats.sem(logs))
    assert found.value == pytest.approx((1.02 * 1.05) ** (1 / 3) - 1)
    assert (found.low, found.high) == (pytest.approx(math.expm1(low)), pytest.approx(math.expm1(high)))


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        ([1.001, 1.002, 1.0], "within"),
        ([1.051, 1.049, 1.05], "beyond"),
        ([0.951, 0.949, 0.95], "beyond"),
        ([1.018, 1.021, 1.019], "not settled by 3 rounds"),
        ([0.8, 1.25], "not settled by 2 rounds"),
        ([1.5], "not settled by 1 round"),
    ],
)
def test_it_is_within_or_beyond_only_where_the_whole_interval_is(ratios: list[float], said: str) -> None:
    told = said_of(difference(ratios, [1.0] * len(ratios)), WITHIN)
    assert told.endswith(f", {said}")
    assert ("(" in told) == (len(ratios) > 1)


def test_a_round_counts_once_every_arm_has_been_asked_in_it() -> None:
    arms = (*ARMS, BENCH)
    whole = [run(arm, turn, 2.0 if arm == DRIVER else 1.0) for turn in range(2) for arm in arms]
    cut = [run(arm, 2, 100.0) for arm in (BENCH, HTTP)]
    assert compared([run(DRIVER, 1, 1.0), *cut]) == []
    found = compared(whole + cut)
    assert {each.metric for each in found} == {field.name for field in fields(Figures)}
    for each in found:
        assert each.values == {DRIVER: 2.0, HTTP: 1.0, BENCH: 1.0}
        assert (each.differences[DRIVER].value, each.differences[DRIVER].n) == (pytest.approx(1.0), 2)


def test_what_was_kept_before_there_were_means_is_told_without_them() -> None:
    arms = (*ARMS, BENCH)
    old = [run(arm, 0, 1.0) for arm in arms]
    for each in old:
        del each["figures"]["mean_ttft_ms"]
    assert {each.metric for each in compared(old)} == {
        field.name for field in fields(Figures) if field.name != "mean_ttft_ms"
    }


def test_rounds_of_several_servers_are_told_together_and_stay_apart() -> None:
    arms = (*ARMS, BENCH)
    first, second = ([run(arm, turn, value) for turn in range(2) for arm in arms] for value in (1.0, 2.0))
    found = compared(of_all_servers([first, second]))
    assert {(each.differences[HTTP].n, each.values[HTTP]) for each in found} == {(4, 1.5)}
    with pytest.raises(ValueError, match="other arms"):
        of_all_servers([first, [each for each in second if each["arm"] != DRIVER]])
    with pytest.raises(ValueError, match="other loads at 4 at once"):
        of_all_servers([first, [{**each, "load": {"concurrency": 4, "requests": 9}} for each in second]])


@pytest.mark.parametrize(
    ("names", "servers", "page"),
    [
        ("h100-serving-comparison-16-*.json", 2, "h100-serving-comparison"),
        ("h200-serving-comparison-steps-*.json", 3, "h200-serving-comparison"),
        ("h200-serving-comparison-64-*.json", 2, "h200-serving-comparison"),
    ],
)
def test_the_page_has_the_table_of_all_servers_that_were_asked(names: str, servers: int, page: str) -> None:
    kept = [
        json.loads(file.read_text(encoding="utf-8"))["runs"]
        for file in sorted((RESULTS / "tables").glob(names))
    ]
    assert len(kept) == servers
    told = (RESULTS / f"{page}.md").read_text(encoding="utf-8")
    assert table(compared(of_all_servers(kept)), WITHIN) in told


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("h100-serving-comparison", "h100-serving-comparison"),
        ("h100-serving-comparison-texts", "h100-serving-comparison"),
        ("h200-serving-comparison", "h200-serving-comparison"),
        ("h200-serving-comparison-16", "h200-serving-comparison"),
        ("h200-serving-comparison-64", "h200-serving-comparison"),
        ("h200-serving-comparison-1-4", "h200-serving-comparison"),
    ],
)
def test_the_page_has_the_table_of_what_was_measured(name: str, page: str) -> None:
    kept = json.loads((RESULTS / "tables" / f"{name}.json").read_text(encoding="utf-8"))
    told = (RESULTS / f"{page}.md").read_text(encoding="utf-8")
    assert table(compared(kept["runs"]), WITHIN) in told


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("--device cpu --rounds 0", "argument --rounds: 0 is none: give 1 or more"),
        ("--device cpu --concurrency 0", "argument --concurrency: 0 is none: give 1 or more"),
        (
            "--device cpu --new-tokens 1",
            "argument --new-tokens: 1 has no time between tokens: give 2 or more",
        ),
        ("--device cpu --json FOLDER/none/a.json", "argument --json: there is no folder"),
        ("--table FOLDER/none.json", "can't be read: No such file or directory"),
        ("--table FOLDER/other.json", "is none that --json wrote"),
    ],
)
def test_what_cant_be_asked_is_refused_in_a_sentence(
    asked: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(SystemExit) as ended:
        main(asked.replace("FOLDER", str(tmp_path)).split())
    assert ended.value.code == 2
    assert said in capsys.readouterr().err

"""Groups of first tokens: counted as they came, and a planted share of a time is told from that of an arm."""

import random
from math import exp
from pathlib import Path

import pytest

from tests.benchmarks.arguments import kept_runs
from tests.benchmarks.first_token_groups import Seen, main, read, seen, share, told

TABLES = Path(__file__).parents[3] / "docs" / "results" / "tables"
PAGE = TABLES.parent / "h100-serving-comparison.md"
SEVERAL = TABLES / "h200-serving-comparison-1-4.json"


def test_groups_and_successors_of_a_run_are_read_from_its_times() -> None:
    found = seen(
        {
            "arm": "http",
            "load": {"concurrency": 2, "new_tokens": 11},
            "saved": {
                "start_s": [0.0, 0.001, 0.302, 0.411],
                "ttft_s": [0.1, 0.1, 0.1, 0.1],
                "decode_s": [0.2, 0.3, 0.2, 0.2],
            },
        },
        3,
    )
    assert (found.arm, found.server, found.groups) == ("http", 3, 3)
    assert found.successors_s == pytest.approx((0.002, 0.010))
    assert found.tpot_ms == pytest.approx(22.5)
    assert (found.ttft_ms, found.e2el_ms) == pytest.approx((100, 325))


def test_what_an_arm_has_more_is_told_from_what_its_groups_cost() -> None:
    chance = random.Random(5)
    runs = []
    for number in range(200):
        arm, server = ("http", "bench")[number % 2], number // 100
        groups = chance.randint(26, 30) + 2 * (arm == "http")
        noise = chance.gauss(0, 0.002)
        tpot_ms = 8 * exp(0.01 * groups + 0.02 * (arm == "http") + 0.1 * server + noise)
        runs.append(Seen(arm, server, groups, (0.0,), tpot_ms, 200 / tpot_ms, 400.0))
    assert share(runs, "http", "ttft_ms").arms[0] == pytest.approx(-0.04, abs=0.006)
    assert share(runs, "http", "e2el_ms").arms[0] == pytest.approx(0, abs=1e-9)
    found = share(runs, "http")
    assert found.arms[0] == pytest.approx(0.04, abs=0.006)
    assert found.group[0] == pytest.approx(0.01, abs=0.001)
    assert found.arms_of_alike[0] == pytest.approx(0.02, abs=0.002)
    assert found.group[1] < 0.0005


def test_the_page_says_what_its_files_say() -> None:
    files = sorted(TABLES.glob("h100-serving-comparison-16-*.json"))
    lines = told(read([kept_runs(str(file)) for file in files]), "http")
    page = PAGE.read_text(encoding="utf-8")
    assert [line for line in lines if line not in page] == []


def test_of_several_concurrencies_the_runs_of_one_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    main([str(SEVERAL), "--concurrency", "4"])
    one = capsys.readouterr().out
    runs = [run for run in kept_runs(str(SEVERAL)) if run["load"]["concurrency"] == 4]
    assert one.splitlines() == told(read([runs]), "http")
    assert "(standard error 0.81, 5 runs)" in one


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([str(PAGE)], "is none that --json wrote"),
        (["nowhere.json"], "can't be read: No such file or directory"),
        (
            [str(TABLES / "h100-serving-comparison-16-a.json"), "--arm", "ids"],
            "in these files is http and vllm",
        ),
        ([str(SEVERAL)], "--concurrency: these files have runs with 1 and 4 requests at once"),
        ([str(SEVERAL), "--concurrency", "16"], "--concurrency: these files have runs with 1 and 4 requests"),
    ],
)
def test_what_can_not_be_compared_is_said_in_a_sentence(
    asked: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(asked)
    assert said in capsys.readouterr().err

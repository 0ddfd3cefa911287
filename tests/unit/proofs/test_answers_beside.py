"""Two pages of answers beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.device.answers_beside import page, rows_of, standing, table, with_later

RESULTS = Path(__file__).parents[3] / "docs" / "results"
NAMES = ("the reference engine on a CPU", "vLLM on an H200")

HEAD = (
    "| contrast | metric | claim | verdict | effect | beyond a draw | n | experiment |\n"
    + "| --- " * 8
    + "|\n"
)


def rows(*told: tuple[str, str], effect: str = "−5.0 %") -> str:
    return HEAD + "".join(
        f"| `{name}` | TPOT | lowers it by 3 % | {verdict} | {effect} | — | 2 launches | E-0001 |\n"
        for name, verdict in told
    )


def test_the_page_of_levers_is_what_the_pages_give() -> None:
    told = page(RESULTS / "levers.md", RESULTS / "h200-levers-answers-whole.md", NAMES, None)
    assert (RESULTS / "levers-on-both.md").read_text() == told
    assert len(rows_of((RESULTS / "levers.md").read_text())) == 24


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("supported", "supported", "the same"),
        ("supported", "refuted", "**contradicted**"),
        ("refuted", "inconclusive", "settled on one alone"),
        ("confounded", "refuted", "settled on one alone"),
        ("open", "confounded", "settled on neither"),
    ],
)
def test_only_verdicts_that_decide_agree_or_contradict(first: str, second: str, told: str) -> None:
    one, other = (rows_of(rows(("mtp", each)))["mtp"] for each in (first, second))
    assert standing(one, other) == told


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("+14.3 % [+12.9, +15.8]", "0.0 % [0.0, 0.0]", "same verdict, other size"),
        ("0.0 % [0.0, 0.0]", "+14.3 % [+12.9, +15.8]", "same verdict, other size"),
        ("−2.3 % [−2.7, −1.8]", "−1.1 % [−1.6, −0.6]", "same verdict, other size"),
        ("−2.3 % [−2.7, −1.6]", "−1.1 % [−1.6, −0.6]", "the same"),
        ("+2,100.0 % [+1,900.0, +2,300.0]", "+2,000.0 % [+2.0, +4,000.0]", "the same"),
        ("+14.3 % [+12.9, +15.8]", "0.0 %", "the same"),
    ],
)
def test_two_that_agree_are_told_apart_where_no_effect_lies_in_both_intervals(
    first: str, second: str, told: str
) -> None:
    one, other = (rows_of(rows(("mtp", "refuted"), effect=each))["mtp"] for each in (first, second))
    assert standing(one, other) == told


def test_a_contradiction_is_one_whatever_the_intervals_are() -> None:
    one = rows_of(rows(("mtp", "supported"), effect="−9.0 % [−9.5, −8.5]"))["mtp"]
    other = rows_of(rows(("mtp", "refuted"), effect="+1.0 % [+0.5, +1.5]"))["mtp"]
    assert standing(one, other) == "**contradicted**"


@pytest.mark.parametrize(
    ("earlier", "later", "taken"),
    [
        ("open", "supported", "supported"),
        ("confounded", "refuted", "refuted"),
        ("supported", "refuted", "supported"),
        ("inconclusive", "open", "inconclusive"),
    ],
)
def test_a_later_page_fills_in_what_an_earlier_one_left_open(earlier: str, later: str, taken: str) -> None:
    found = with_later(rows_of(rows(("mtp", earlier))), rows_of(rows(("mtp", later))))["mtp"]
    assert found.verdict == taken
    assert found.experiment.endswith(", later") == (taken != earlier)


def test_what_one_page_alone_has_is_left_out() -> None:
    one, other = rows_of(rows(("mtp", "open"), ("dflash", "supported"))), rows_of(rows(("dflash", "refuted")))
    lines = table(one, other, NAMES)
    assert len(lines) == 3
    assert lines[2].startswith("| `dflash` | TPOT | lowers it by 3 % | supported: −5.0 % (E-0001) | refuted")

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


def rows(*told: tuple[str, str]) -> str:
    return HEAD + "".join(
        f"| `{name}` | TPOT | lowers it by 3 % | {verdict} | −5.0 % | — | 2 launches | E-0001 |\n"
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

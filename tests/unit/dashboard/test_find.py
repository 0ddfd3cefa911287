"""Finding: labels before words, words taken as they stand, and nothing that can't be opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from configs.settings import Settings
from dashboard.page import Ground, Request
from dashboard.pages.find import PAGE, FindFilters, read
from tests.history.campaign_history import History, a_full_history


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    made = a_full_history(tmp_path_factory.mktemp("find"))
    yield made
    made.close()


def found(history: History, words: str) -> list[str]:
    with history.database.read() as session:
        view = read(session, Request({}, FindFilters(q=words)), Ground(Settings(data_dir=Path("unused"))))
    assert all(hit.url.startswith("/") for hit in view.found)
    return [hit.about for hit in view.found if hit.about != "Page"]


def test_a_label_is_found_however_it_is_written(history: History) -> None:
    for words in ("E-0001", "e-1", " E-1 "):
        assert found(history, words)[0] == "E-0001"


def test_a_number_finds_what_bears_it_whatever_it_is(history: History) -> None:
    assert {"C-1", "H-001", "E-0001"} <= set(found(history, "1"))


def test_words_of_a_claim_find_its_hypothesis_and_its_experiment(history: History) -> None:
    assert found(history, "c++ WRAPPER") == ["H-003", "E-0003"]


@pytest.mark.parametrize("words", ["I%s", "Th_ee", "\\", "' OR 1=1 --", "E-999999999999999", "9" * 60, "<b>"])
def test_what_means_something_elsewhere_means_nothing_here(history: History, words: str) -> None:
    assert [label for label in found(history, words) if label != "C-1"] == []


def test_nothing_gives_the_pages(history: History) -> None:
    with history.database.read() as session:
        view = read(session, Request({}, FindFilters()), Ground(Settings(data_dir=Path("unused"))))
    assert {hit.about for hit in view.found} == {"Page"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("e-12", "autoinfer show e-12"),
        ("", "autoinfer show E-0001"),
        ("c++ wrapper", "autoinfer hypotheses --search 'c++ wrapper'"),
    ],
)
def test_the_command_in_the_foot_shows_a_label_and_searches_for_words(words: str, told: str) -> None:
    assert PAGE.command(Request({}, FindFilters(q=words))) == told

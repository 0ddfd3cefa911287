"""A finding that a page lists is said in short: its scope, and all that stood beside the change, are on its
own page, where they stand once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.pages import experiment, finding, hypothesis
from db.states import VerdictOutcome
from tests.history.campaign_history import BASE, SPACE, History
from tests.unit.dashboard.test_in_doubt import html_of

PRUNED = SPACE.with_change(BASE, {"pruning.method": "depth", "pruning.layers_removed": 1})
BESIDE = "(beside pruning.criterion"
SCOPE = " on model reference"


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    found = History(tmp_path)
    found.judge(found.propose({"pruning.layers_removed": 2}, control=PRUNED), VerdictOutcome.SUPPORTED)
    yield found
    found.close()


def test_the_pages_of_a_hypothesis_and_of_an_experiment_say_it_in_short(history: History) -> None:
    for page, label, part in (
        (hypothesis.PAGE, "H-001", 'id="hy-findings"'),
        (experiment.PAGE, "E-0001", 'id="ex-led"'),
    ):
        listed = html_of(history, page, label=label).partition(part)[2].partition("</section>")[0]
        assert "lowers TPOT by 10.0" in listed
        assert BESIDE not in listed
        assert SCOPE not in listed


def test_the_page_of_a_finding_says_it_in_short_above_and_in_full_below(history: History) -> None:
    html = html_of(history, finding.PAGE, label="F-001")
    title = html.partition("<h1")[2].partition("</h1>")[0]
    assert "lowers TPOT by 10.0" in title
    assert BESIDE not in title
    full = html.partition("In full")[2].partition("</section>")[0]
    assert BESIDE in full
    assert SCOPE in full

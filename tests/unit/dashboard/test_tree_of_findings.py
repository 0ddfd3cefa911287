"""The tree of Knowledge: of findings that read alike what tells them apart, and what disputes each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from configs.settings import Settings
from dashboard.page import Ground, Request
from dashboard.pages.knowledge import PAGE, KnowledgeFilters
from db.states import VerdictOutcome
from knowledge.findings.told import Telling, tell
from knowledge.findings.verdict_fact import Saying
from tests.history.campaign_history import BASE, SPACE, History


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """The same change beside two settings of another knob."""
    found = History(tmp_path)
    for control in (BASE, SPACE.with_change(BASE, {"serving.dtype": "bfloat16"})):
        found.judge(found.propose({"serving.threads": 1}, control=control), VerdictOutcome.SUPPORTED)
    yield found
    found.close()


def tree_of(history: History) -> str:
    request = Request({}, KnowledgeFilters(node="knob:serving.threads", depth=2))
    with history.database.read() as session:
        html = PAGE.live(PAGE.read(session, request, Ground(Settings(data_dir=Path("unused")))), request)
    return html.partition('role="tree"')[2].partition("</section>")[0]


def test_findings_that_read_alike_are_told_apart_by_what_stood_beside_the_change(history: History) -> None:
    tree = tree_of(history).replace("<wbr>", "")
    assert "beside serving.dtype float32" in tree
    assert "beside serving.dtype bfloat16" in tree
    assert "lowers TPOT by 10.0" in tree
    assert "on model" not in tree


def test_a_disputed_finding_says_so(history: History) -> None:
    assert "disputes it" not in tree_of(history)
    with history.database.write() as session:
        telling = Telling(
            claim="It does not on the card of the lab",
            assignments=("serving.threads=1",),
            says=Saying.DOES_NOT_HELP,
            target="gpu:NVIDIA L4:24 GB",
        )
        tell(session, telling, 1)
    assert "but F-003 disputes it" in tree_of(history)

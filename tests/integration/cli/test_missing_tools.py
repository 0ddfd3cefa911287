"""What is not there to make some values when a campaign is started is kept with it, and its queue says so: on
the page and among the next on Now, on the command line and to an agent that asks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from agent.campaign.beginning.missing import keep_missing
from agent.plan.ground import Ground
from agent.plan.tools_there import MissingTool
from cli.main import call
from cli.run import _start_or_continue
from configs.campaign import load_campaign
from configs.settings import Settings
from dashboard.app import create_app
from dashboard.mcp import hypothesis_answers
from db.models import Campaign
from db.session import Database
from db.states import VerdictOutcome
from experiments.space.configuration import KnobValue
from knowledge.queries.order.missing_tools import missing_tools
from knowledge.queries.order.queue import queue_page
from tests.history.campaign_history import History, the_ground
from tests.new_database import new_database

COMMAND = "autoinfer engines install quantize --gpu"
PRUNES = MissingTool(
    {"pruning.method": ("depth",)},
    f"No hypothesis that takes layers out can be tested yet: no PyTorch is there; install it: {COMMAND}.",
    COMMAND,
)
SAID = "needs what was not there when the campaign was last started; to install it"
WITHOUT_LAYERS: dict[str, KnobValue] = {"pruning.method": "depth", "pruning.layers_removed": 1}


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """A queue of two, one of which takes layers out."""
    found = History(tmp_path)
    found.propose({"serving.threads": 1}, claim="One thread is faster.", rank=1)
    found.propose(WITHOUT_LAYERS, claim="Without a layer it is faster.", rank=2)  # type: ignore[arg-type]
    yield found
    found.close()


def keep(history: History, missing: Sequence[MissingTool]) -> None:
    with history.database.write() as session:
        keep_missing(session, history.campaign_id, missing)


def page_of(history: History, folder: Path, path: str = "/queue") -> str:
    app = create_app(Settings(data_dir=folder), history.database)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        return " ".join(unescape(re.sub("<[^>]+>", " ", client.get(path).text)).split())


def test_the_page_says_once_why_and_in_the_row_what_to_do(history: History, tmp_path: Path) -> None:
    keep(history, [PRUNES])
    page = page_of(history, tmp_path)
    assert page.count(PRUNES.told) == 1
    assert "As C-1 was last started:" in page
    before, _, row = page.partition("Without a layer it is faster.")
    assert f"{SAID[0].upper()}{SAID[1:]}: {COMMAND}" in row
    assert SAID[1:] not in before, "the other row needs nothing"


def test_an_agent_that_asks_for_the_queue_is_told(history: History) -> None:
    keep(history, [PRUNES])
    with history.database.read() as session:
        threads, layers = hypothesis_answers.queue(session, None, None, 10, 0).items
    assert threads.missing == ()
    assert layers.missing == (f"{SAID}: {COMMAND}",)


def test_the_next_rows_of_now_say_it_in_few_words(history: History, tmp_path: Path) -> None:
    assert "acked a tool" not in page_of(history, tmp_path, "/")
    keep(history, [PRUNES])
    before, _, row = page_of(history, tmp_path, "/").partition("Without a layer it is faster.")
    assert f"Lacked a tool: {COMMAND}" in row
    assert "acked a tool" not in before, "the other row needs nothing"


def test_the_command_line_says_it_of_the_same_row(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(history, [PRUNES])
    assert call(["queue", "--data-dir", str(tmp_path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"{SAID}: {COMMAND}" in told.partition("H-002")[2]
    assert SAID not in told.partition("H-002")[0]


def test_nothing_is_said_where_nothing_is_missing_or_no_row_needs_it(
    history: History, tmp_path: Path
) -> None:
    assert "was last started" not in page_of(history, tmp_path)
    keep(history, [replace(PRUNES, values={"pruning.method": ("width",)})])
    assert "was last started" not in page_of(history, tmp_path)


def test_a_row_names_each_tool_that_it_needs_and_what_it_changes_of_what_needs_one(tmp_path: Path) -> None:
    history = History(tmp_path)
    both: dict[str, KnobValue] = {**WITHOUT_LAYERS, "drafting.method": "mtp", "drafting.draft_tokens": 1}
    shorter = history.draft(both).candidate
    history.propose(both, claim="Fewer layers, and drafts.", rank=1)
    history.propose({"pruning.layers_removed": 2}, claim="Fewer again.", rank=2, control=shorter)
    history.propose({"serving.threads": 1}, claim="One thread.", rank=3, control=shorter)
    drafts = MissingTool({"drafting.method": ("mtp",)}, "No drafts yet.", "install drafts")
    keep(history, [PRUNES, drafts])
    with history.database.read() as session:
        rows = queue_page(session, history.campaign_id, limit=9).items
    assert {row.claim: [tool.command for tool in row.missing] for row in rows} == {
        "Fewer layers, and drafts.": [COMMAND, "install drafts"],
        "Fewer again.": [COMMAND],
        "One thread.": [],
    }
    history.close()


def test_what_was_tested_is_no_more_said_to_need_it(history: History, tmp_path: Path) -> None:
    keep(history, [PRUNES])
    history.judge(2, VerdictOutcome.REFUTED)
    assert "was last started" not in page_of(history, tmp_path)


def kept(database: Database) -> list[str]:
    with database.read() as session:
        return [each.told for each in missing_tools(session.get_one(Campaign, 1).spec)]


def test_it_is_kept_as_a_campaign_begins_and_looked_at_anew_as_it_goes_on(tmp_path: Path) -> None:
    database, spec = new_database(tmp_path), load_campaign("default")
    lacking: Ground = replace(the_ground(), missing=(PRUNES,))
    assert _start_or_continue(database, spec, lacking, new=False) == 1
    assert kept(database) == [PRUNES.told]
    assert _start_or_continue(database, spec, the_ground(), new=False) == 1
    assert kept(database) == []
    database.close()


def test_it_is_looked_at_anew_as_a_campaign_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = new_database(tmp_path)
    _start_or_continue(database, load_campaign("default"), the_ground(), new=True)
    lacking = replace(the_ground(), missing=(PRUNES,))
    monkeypatch.setattr("agent.campaign.beginning.survey.survey", lambda *_, **__: lacking)
    monkeypatch.setattr("cli.running.run_resume.drive", lambda *_, **__: None)
    assert call(["run", "--resume", "C-1", "--budget", "1m", "--data-dir", str(tmp_path)]) == 0
    assert kept(database) == [PRUNES.told]
    database.close()

"""Findings of the same change in the same place are told apart by what their controls have."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from cli.main import call
from configs.settings import Settings
from dashboard.app import create_app
from db.models import Finding
from db.states import FindingStatus, VerdictOutcome
from knowledge.queries.found.findings import FindingView, list_findings
from knowledge.queries.found.scopes import beside, scope_words
from tests.history.campaign_history import BASE, SPACE, History

FASTER = SPACE.with_change(BASE, {"serving.threads": 1})
SLOWER = SPACE.with_change(BASE, {"serving.threads": 4})


def listed(history: History) -> dict[str, FindingView]:
    with history.database.read() as session:
        return {each.id: each for each in list_findings(session, limit=50).items}


def test_findings_that_differ_in_the_control_alone_name_the_knobs_of_it(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    history.judge(history.propose({"serving.dtype": "bfloat16"}), VerdictOutcome.SUPPORTED)
    assert [each.beside for each in listed(history).values()] == [None]
    for control in (FASTER, SLOWER):
        number = history.propose({"serving.dtype": "bfloat16"}, control=control)
        history.judge(number, VerdictOutcome.SUPPORTED)
    history.judge(history.propose({"serving.compile": "default"}), VerdictOutcome.SUPPORTED)
    history.judge(1, VerdictOutcome.SUPPORTED, target="gpu:NVIDIA L4:24 GB")
    assert {label: each.beside for label, each in listed(history).items()} == {
        "F-001": f"beside serving.threads {BASE['serving.threads']}",
        "F-002": "beside serving.threads 1",
        "F-003": "beside serving.threads 4",
        "F-004": None,
        "F-005": None,
    }
    assert call(["--db", history.url, "findings"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert [told.count(f"Made beside serving.threads {each}.") for each in (1, 2, 4)] == [1, 1, 1]
    assert call(["--db", history.url, "graph", "known", "serving.dtype"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"{listed(history)['F-003'].place} · beside serving.threads 4 " in told
    app = create_app(Settings(data_dir=Path("unused")), history.database)
    page = TestClient(app, base_url="http://127.0.0.1").get("/knowledge").text
    assert f"{listed(history)['F-002'].place} · beside serving.threads 1</p>" in page
    asked = TestClient(app, base_url="http://127.0.0.1").get("/knowledge/ask?about=serving.dtype").text
    assert f"{listed(history)['F-003'].place} · beside serving.threads 4</span>" in asked


def test_as_many_findings_of_different_changes_as_may_be_listed_are_told_apart(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    with history.database.write() as session:
        for number in range(1100):
            for threads in (1, 2):
                row = Finding(key=f"tpot_ms: a.knob → {number} #{threads}@1", scope={}, rule="effect")
                row.scope, row.claim = {"control": {"serving.threads": threads}}, f"It helps at {number}."
                row.strength, row.status = "measured", FindingStatus.HOLDS
                session.add(row)
    assert call(["--db", history.url, "findings", "--limit", "2200"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert [told.count(f"Made beside serving.threads {each}.") for each in (1, 2)] == [1100, 1100]


def test_the_knobs_that_tell_a_control_from_most_come_first_and_as_many_as_tell_it_from_all() -> None:
    mine = {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}
    assert beside(mine, [mine]) == ""
    assert beside(mine, [mine, mine | {"b": 2}]) == "beside b 1"
    others = [mine | {"b": 2, "e": 2}, mine | {"b": 3}, mine | {"c": 2}]
    assert beside(mine, [mine, *others]) == "beside b 1, c 1, e 1"
    each_by_one = [mine | {name: 2} for name in mine]
    assert beside(mine, each_by_one) == "beside a 1, b 1, c 1, d 1, e 1"
    assert beside(mine, [dict.fromkeys(mine, 2)]) == "beside a 1, b 1, c 1 and 2 more"
    assert beside({"a": 1}, [{"a": 2, "b": 1}]) == "beside a 1, without b"
    assert beside({"on": True}, [{"on": False}]) == "beside on on"


def test_a_scope_in_a_line_has_model_hardware_engine_and_workload() -> None:
    scope = {"model": "m", "target": "gpu:NVIDIA L4:24 GB", "engine": "vllm"}
    assert scope_words(scope) == "m · NVIDIA L4 · vllm"
    workload = {"prompt_tokens": 4096, "new_tokens": 32, "concurrency": 1}
    assert scope_words(scope | {"workload": workload}) == "m · NVIDIA L4 · vllm · 4096 tokens in, 32 out"
    busy = scope_words(scope | {"workload": workload | {"concurrency": 16}})
    assert busy == "m · NVIDIA L4 · vllm · 4096 tokens in, 32 out · concurrency 16"
    assert scope_words({"target": "mine"}) == "mine"

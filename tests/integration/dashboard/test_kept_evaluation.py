"""An evaluation of the control that is kept stands under the screen and under the evaluation of a test: its
samples are told once, with both, on the page, on the sheet with its raw samples, and to a client of MCP."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape

import pytest
from starlette.testclient import TestClient

from cli.sheets.experiment import print_experiment
from dashboard.mcp.experiment_answers import experiment
from db.models import Experiment
from db.samples import Sample
from db.states import Arm, VerdictOutcome
from experiments.measurement.evidence import EVALUATION_KEY, Stage
from knowledge.queries.measured.experiment_detail import experiment_detail
from tests.history.campaign_history import History, add_launch
from tests.integration.dashboard.experiment_pages import client

__all__ = ["client"]

KEPT = "e" * 64
CONTROL = (410.0, 420.0, 430.0)
PLAIN, DRAFTING = (411.0, 421.0, 431.0), (412.0, 422.0, 432.0)
"""Bits of the documents: the control's, and the candidate's without its draft and with it."""


def documents(bits: Sequence[float]) -> list[Sample]:
    return [Sample(0, 0, f"text-{n}", n, "nll_bits", "bit", value) for n, value in enumerate(bits)]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    found = History(tmp_path_factory.mktemp("kept"))
    judged = found.judge(found.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    with found.database.write() as session:
        test = session.get_one(Experiment, judged.experiment_id)
        for stage, candidate in ((Stage.SCREEN, PLAIN), (Stage.EVALUATE, DRAFTING)):
            kept = {"machine": {EVALUATION_KEY: KEPT}}
            add_launch(session, test, Arm.CONTROL, stage, {}, documents(CONTROL), kept)
            add_launch(session, test, Arm.CANDIDATE, stage, {}, documents(candidate), {"machine": {}})
    yield found
    found.close()


def test_the_sheet_tells_it_once_with_both_stages_that_used_it(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    with history.database.read() as session:
        print_experiment(experiment_detail(session, 1))
    section = capsys.readouterr().out.partition("Quality samples")[2].partition("\n\n")[0]
    rows = [re.split(r"  +", line.strip()) for line in section.splitlines() if "nll_bits" in line]
    assert rows == [
        ["control", "0", "screen, evaluate", "nll_bits", "420.0 bit", "3"],
        ["candidate", "0", "screen", "nll_bits", "421.0 bit", "3"],
        ["candidate", "0", "evaluate", "nll_bits", "422.0 bit", "3"],
    ]


def test_its_raw_samples_are_listed_once_with_both_stages(
    history: History,
    client: TestClient,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    with history.database.read() as session:
        detail = experiment_detail(session, 1, samples=True)
    print_experiment(detail)
    section = capsys.readouterr().out.partition("\nSamples\n")[2].partition("\n\n")[0]
    cells = [re.split(r"  +", line.strip()) for line in section.splitlines() if "nll_bits" in line]
    once = [
        *(("control", "screen, evaluate", bits) for bits in CONTROL),
        *(("candidate", "screen", bits) for bits in PLAIN),
        *(("candidate", "evaluate", bits) for bits in DRAFTING),
    ]
    assert sorted((each[0], each[2], each[-1]) for each in cells) == sorted(
        (arm, stages, f"{bits:g} bit") for arm, stages, bits in once
    )
    assert detail.samples is not None
    found = [each for each in detail.samples if each.metric == "nll_bits"]
    assert sorted((each.arm.value, ", ".join(each.used_by), each.value) for each in found) == sorted(once)
    assert {each.used_by for each in detail.samples if each.metric == "tpot_ms"} == {("full",)}
    exported = client.get("/experiments/E-0001/samples.csv").text
    assert exported.count("nll_bits") == len(once) + len(CONTROL), (
        "a file of raw samples has each launch's own"
    )


def test_the_page_has_it_once_among_the_launches_and_among_what_was_scored(client: TestClient) -> None:
    page = unescape(client.get("/experiments/E-0001").text)
    launches, _, scored = page.partition('id="ex-launches"')[2].partition('id="ex-scored"')
    stages = re.findall(r'data-label="Stage">([^<]+)<', launches)
    assert sorted(stages) == ["evaluate", "full", "full", "screen", "screen, evaluate"]
    assert "What was scored besides: 3 figures" in scored
    assert re.findall(r"<td>([a-z, ]+)</td><td><code>nll_bits", scored) == [
        "screen, evaluate",
        "screen",
        "evaluate",
    ]
    opened = re.findall(r'href="(/experiments/E-0001/samples[^"]+metric=nll_bits)">3<', scored)
    assert [client.get(each.replace("/samples?", "/samples.json?")).json()["total"] for each in opened] == [
        3,
        3,
        3,
    ]


def test_a_client_is_told_it_once(history: History) -> None:
    with history.database.read() as session:
        spreads = experiment(session, "E-0001").spreads
    told = [(each.arm, each.stage) for each in spreads if each.metric == "nll_bits"]
    assert told == [("control", "screen"), ("candidate", "screen"), ("candidate", "evaluate")]


def test_what_was_scored_anew_beside_a_kept_evaluation_stands_apart(history: History) -> None:
    judged = history.judge(history.propose({"serving.dtype": "bfloat16"}), VerdictOutcome.SUPPORTED)
    with history.database.write() as session:
        test = session.get_one(Experiment, judged.experiment_id)
        for attempt, bits in enumerate((CONTROL, PLAIN), start=1):
            kept = {"machine": {EVALUATION_KEY: KEPT}}
            add_launch(session, test, Arm.CONTROL, Stage.EVALUATE, {}, documents(bits), kept, attempt)
    with history.database.read() as session:
        spreads = experiment(session, "E-0002").spreads
    told = [each.median for each in spreads if each.metric == "nll_bits"]
    assert told == [420.0, 421.0]

"""Kernels that were timed alone are on the baseline's page, in its JSON and on its sheet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from html import unescape

import pytest
from starlette.testclient import TestClient

from cli.sheets.experiment import print_experiment
from experiments.engines.kernel_timings import KernelTimings
from experiments.job.kernel_timing import TIMINGS, without_samples
from knowledge.queries.measured.experiment_detail import experiment_detail
from tests.history.campaign_history import History
from tests.integration.dashboard.experiment_pages import client, judge_with_stage
from tests.recorded.kernel_timings import recorded

__all__ = ["client"]


def compiled() -> KernelTimings:
    """The recorded timings, of which `humming` is compiled for each of its seven products."""
    told = recorded()
    parts = tuple(replace(each, first_call_s=12.5) for each in told.packed[1].parts)
    return replace(told, packed=(told.packed[0], replace(told.packed[1], parts=parts), *told.packed[2:]))


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    found = History(tmp_path_factory.mktemp("kernels"))
    detail = {TIMINGS: without_samples(compiled().data())}
    judge_with_stage(found, {"serving.threads": 1}, "kernels", 31.0, detail)
    yield found
    found.close()


def test_the_page_has_each_kernel_with_its_time_or_why_not(client: TestClient) -> None:
    html = unescape(client.get("/experiments/E-0001").text)
    assert "Kernels for packed weights, timed alone" in html
    assert "1.983" in html
    assert html.count("ConchLinearKernel cannot implement") == 1
    assert 'Refused: conch<sup><a href="#kt-1" aria-label="note 1">1</a></sup>' in html
    assert '<li id="kt-1">ConchLinearKernel cannot implement' in html
    assert '<th scope="rowgroup" colspan="5">4 bits, groups of 128</th>' in html
    assert "No verdict rests on it." in html
    assert '<td class="num">87.5</td>' in html
    assert "compiled for every shape" in html


def test_its_json_has_the_same_rows(client: TestClient) -> None:
    told = client.get("/experiments/E-0001.json").json()["kernel_timings"]
    assert [each["value"] for each in told["rows"]][:3] == ["—", "humming", "marlin"]
    assert told["took_s"] == 31.0
    assert [each["first_calls_s"] for each in told["rows"]][:3] == [0.0, 87.5, 0.0]
    assert "compiled for every shape" in told["first_calls"]


def test_its_sheet_has_them_too(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    with history.database.read() as session:
        print_experiment(experiment_detail(session, 1))
    out = " ".join(capsys.readouterr().out.split())
    assert "Kernels for packed weights, timed alone" in out
    assert "87.5" in out

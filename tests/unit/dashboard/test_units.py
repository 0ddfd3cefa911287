"""Figures on pages: every one with its unit, as many digits as it is worth, and no column without any."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from sqlalchemy import select

from configs.settings import Settings
from dashboard.page import Ground, Request
from dashboard.pages import (
    campaigns,
    compare,
    costs,
    experiment,
    experiment_samples,
    finding,
    hypothesis,
    knowledge,
)
from db.models import Experiment, Launch, Verdict
from db.samples import Sample, insert_samples
from db.states import VerdictOutcome
from knowledge.machines import is_called, machine, machines_named
from tests.history.campaign_history import History
from tests.unit.dashboard.test_in_doubt import html_of

QUALITY = {
    "state": "held",
    "bits_per_byte_relative": {
        "difference": -0.00004568,
        "low": -0.0012,
        "high": 0.0011,
        "margin": 0.01,
        "count": 128,
    },
    "task_points_lost": {"difference": 0.0, "low": -2.0, "high": 2.0, "margin": 2.0, "count": 1200},
}


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    found = History(tmp_path)
    found.judge(found.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    found.judge(found.propose({"serving.dtype": "bfloat16"}), VerdictOutcome.REFUTED, effect=(0.2, 0.1, 0.3))
    with found.database.write() as session:
        for verdict in session.scalars(select(Verdict)):
            verdict.quality = QUALITY
    yield found
    found.close()


def cells(html: str) -> list[str]:
    """The words of a piece of a page, tags apart."""
    text = unescape(re.sub(r"<[^>]+>", "\n", html))
    return [each.strip() for each in text.split("\n") if each.strip()]


def test_what_quality_allows_has_a_unit_and_what_it_was_measured_over_a_name(history: History) -> None:
    html = html_of(history, experiment.PAGE, label="E-0001")
    told = cells(html.partition('id="ex-quality"')[2].partition("</section>")[0])
    assert {"+1.0\u202f%", "128 documents", "+2.0\u00a0points", "1,200 items"} <= set(told)


def test_compared_quality_has_the_digits_of_an_experiment_s_page(history: History) -> None:
    request = Request({}, compare.CompareFilters(ids="E-0001,E-0002"))
    with history.database.read() as session:
        view = compare.PAGE.read(session, request, Ground(Settings(data_dir=Path("unused"))))
    told = cells(compare.PAGE.live(view, request))
    assert told.count("0.00\u202f%") == 2
    assert told.count("0.00\u00a0points") == 2


def test_no_median_is_compared_of_what_is_scored(history: History) -> None:
    """Of items it is 0 or 1, and of documents it is no bits per byte."""
    with history.database.write() as session:
        for label, metric in ((1, "tpot_ms"), (2, "task_correct")):
            tested = session.get_one(Experiment, label)
            tested.plan = {**tested.plan, "metric": metric}
        launch = session.scalars(select(Launch).where(Launch.experiment_id == 2)).first()
        assert launch is not None
        launch.stage = "validation"
        insert_samples(session, launch.id, [Sample(9, 0, "a", 0, "task_correct", "1", 1.0)])
    request = Request({}, compare.CompareFilters(ids="E-0001,E-0002"))
    with history.database.read() as session:
        view = compare.PAGE.read(session, request, Ground(Settings(data_dir=Path("unused"))))
    (times,) = [each for each in view.groups if each.title == "Time"]
    assert [each.name for each in times.rows] == ["median TPOT, candidate", "median TPOT, control"]


def test_a_whole_sample_has_no_decimals(history: History) -> None:
    with history.database.write() as session:
        launch = session.scalars(select(Launch)).first()
        assert launch is not None
        samples = [
            Sample(9, 0, "a", seq, metric, unit, value)
            for seq, (metric, unit, value) in enumerate(
                [("text_bytes", "B", 1395.0), ("nll_bits", "bit", 1576.61)]
            )
        ]
        insert_samples(session, launch.id, samples)
    told = cells(html_of(history, experiment_samples.PAGE, label="E-0001"))
    assert "1,395\u202fB" in told
    assert "1,576.61\u00a0bit" in told


def test_hypotheses_of_a_campaign_are_counted_with_commas_between(history: History) -> None:
    assert "1 supported, 1 ruled out" in " ".join(cells(html_of(history, campaigns.PAGE))).replace(" ,", ",")


def test_costs_have_no_column_of_quotes_where_nothing_was_quoted(history: History) -> None:
    assert ">Quote<" not in html_of(history, costs.PAGE)


def test_a_machine_is_called_by_its_name_and_size() -> None:
    assert machine("cuda:NVIDIA H200:151 GB") == "NVIDIA H200 (151 GB)"
    assert machine("cpu:Example CPU:2 cores") == "Example CPU (2 cores)"
    assert machine("cuda:NVIDIA L4:24 GB:modal") == "NVIDIA L4 (24 GB, modal)"
    assert machine("modal:H100!") == "modal:H100!"
    assert machine("cuda:0,cuda:1") == "cuda:0,cuda:1"


def test_a_sentence_calls_machines_by_their_names_and_leaves_what_a_command_takes() -> None:
    said = "Faster on model m, target cuda:NVIDIA H200:151 GB, engine vllm; not on cpu:Example CPU:1 core."
    named = "Faster on model m, target NVIDIA H200 (151 GB), engine vllm; not on Example CPU (1 core)."
    assert machines_named(said) == named
    command = "Answered by autoinfer promote E-0001 --target cuda:0, or vm/cuda:1."
    assert machines_named(command) == command
    rented = "Tested on cuda:NVIDIA L4:24 GB:modal, cpu:Example CPU:2 cores: no."
    assert machines_named(rented) == "Tested on NVIDIA L4 (24 GB, modal), Example CPU (2 cores): no."


@pytest.mark.parametrize("part", ["H200", "nvidia h200 (151 gb)", "cuda:NVIDIA", ":151"])
def test_a_machine_is_found_by_a_part_of_its_name_or_of_its_key(part: str) -> None:
    assert is_called("cuda:NVIDIA H200:151 GB", part)
    assert not is_called("cuda:NVIDIA H100:85 GB", part) or part == "cuda:NVIDIA"


def test_a_finding_and_its_machine_in_the_graph_have_its_name(history: History) -> None:
    for page, path in ((finding.PAGE, {"label": "F-001"}), (knowledge.PAGE, {})):
        html = html_of(history, page, **path)
        text = re.sub("<[^>]*>", " ", html)
        assert "Example CPU (2 cores)" in text, page.name
        assert "cpu:Example CPU" not in text, page.name


def test_pages_call_a_machine_so(history: History) -> None:
    for page, path in ((campaigns.PAGE, {}), (costs.PAGE, {}), (experiment.PAGE, {"label": "E-0001"})):
        html = html_of(history, page, **path)
        assert "Example CPU (2 cores)" in html, page.name
        assert "on cpu:Example CPU" not in html, page.name


def test_on_a_phone_no_word_of_quality_and_no_knob_breaks_within(history: History) -> None:
    html = html_of(history, experiment.PAGE, label="E-0001")
    quality = html.partition('id="ex-quality"')[2].partition("</section>")[0]
    assert 'class="rows qt cards"' in quality, "a card each, with the column's name above the figure"
    assert quality.count('data-label="Allowed"') == 2
    knob = "<code>serving.<wbr>threads</code>"
    assert knob in html
    assert knob in html_of(history, hypothesis.PAGE, label="H-001")

"""The forms of a report: a file that asks for nothing, tables and numbers in order, text that stays text."""

import json
import re
from datetime import timedelta
from pathlib import Path

import jsonschema
import pytest
from sqlalchemy import update

from dashboard.report.html import as_html, inline, policy, style
from dashboard.report.markdown import _text, as_markdown
from dashboard.report.whole import document
from db.models import Experiment, Finding, Hypothesis, Move, Verdict
from knowledge.report.view import ReportView
from tests.history.campaign_history import History
from tests.unit.knowledge.reports import MADE, SECTIONS, Page, read


def test_a_file_asks_for_nothing_and_every_link_in_it_leads_somewhere(full_history: History) -> None:
    text = as_html(read(full_history))
    page = Page(text)
    assert page.asked == []
    assert not re.search(r"url\(|@import|https?://", text)
    assert "script" not in page.tags
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert f"<style>{style()}</style>" in text, "its policy allows this style alone, by its digest"
    assert "default-src &#39;none&#39;" in text
    assert policy().startswith("default-src 'none'")
    assert len(text.encode()) < 1_000_000


def test_sections_tables_and_figures_are_numbered_in_their_order(full_history: History) -> None:
    found = document(read(full_history))
    assert [each.number for each in found.sections] == list(range(1, SECTIONS + 1))
    text = as_markdown(read(full_history))
    for what in ("Table", "Figure"):
        numbers = [int(each) for each in re.findall(rf"^\*\*{what} (\d+)\.\*\*", text, re.MULTILINE)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert numbers


def test_every_row_of_a_markdown_table_has_as_many_cells_as_its_head(full_history: History) -> None:
    with full_history.database.write() as session:
        session.execute(update(Hypothesis).values(claim="a | b\n<script>alert(1)</script> **bold**"))
    text = as_markdown(read(full_history))
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(blocks) > 5
    for block in blocks:
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(counts) == 1, block


def test_the_same_database_gives_the_same_bytes_but_the_date(full_history: History) -> None:
    first, second = read(full_history), read(full_history, MADE + timedelta(days=1))
    assert as_html(first) == as_html(read(full_history))
    assert as_markdown(first) == as_markdown(read(full_history))
    assert first.model_copy(update={"made_at": second.made_at}) == second
    differing = [
        (one, other)
        for one, other in zip(as_html(first).splitlines(), as_html(second).splitlines(), strict=True)
        if one != other
    ]
    assert len(differing) == 1
    assert "2026-11-24" in differing[0][1]


def test_the_json_form_is_of_its_schema_and_reads_back(full_history: History) -> None:
    found = read(full_history)
    text = found.model_dump_json()
    jsonschema.validate(json.loads(text), ReportView.model_json_schema(mode="serialization"))
    assert ReportView.model_validate_json(text) == found


def test_no_figure_is_taken_from_a_sentence(full_history: History) -> None:
    """Every stored sentence is emptied, and no estimate, interval, count or digest changes."""
    before = read(full_history)
    with full_history.database.write() as session:
        session.execute(update(Verdict).values(reason=""))
        session.execute(update(Move).values(reason=""))
        session.execute(update(Finding).values(claim="", status_reason=None))
        session.execute(
            update(Hypothesis).values(claim="", rationale="", state_reason=None, rank_reason=None)
        )
        session.execute(update(Experiment).values(failure=""))
    after = read(full_history)
    for each in ("pareto", "costs", "calibration", "samples", "machines", "artifacts", "baseline", "seals"):
        assert getattr(before, each) == getattr(after, each), each
    figures = {"claim", "reason", "why_then"}
    assert [each.model_dump(exclude=figures) for each in before.trials] == [
        each.model_dump(exclude=figures) for each in after.trials
    ]
    assert [each.effect for each in before.findings] == [each.effect for each in after.findings]


def test_what_a_user_wrote_is_text_in_a_report() -> None:
    assert inline("<b> & `a<b` **x<y**") == "&lt;b&gt; &amp; <code>a&lt;b</code> <strong>x&lt;y</strong>"
    assert inline("see E-0001 and E-0002", {"E-0002"}) == (
        'see <span class="nb">E-0001</span> and <a href="#E-0002">E-0002</a>'
    )


@pytest.mark.parametrize(
    "wrote", ["**<script>x</script>**", "``<script>x</script>`", "`a` ` <script>x</script> `` b"]
)
def test_what_a_user_wrote_is_text_in_markdown_too(wrote: str) -> None:
    text = _text(wrote)
    code = re.sub(r"(?<![`\\])`[^`]*[^`\\]`", "", text)
    assert "script" in code
    assert re.search(r"(?<!\\)<", code) is None
    assert _text("**so `a|b`**: 1 | 2") == "**so `a\\|b`**: 1 \\| 2"


def test_a_folder_of_the_module_is_packaged_with_its_style() -> None:
    assert (Path(__file__).parents[3] / "dashboard/static/css/report.css").is_file()

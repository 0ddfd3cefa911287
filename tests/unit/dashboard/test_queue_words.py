"""What the queue's page says of a row: its move, its reason, its score."""

from __future__ import annotations

import pytest
from markupsafe import Markup

from dashboard.pages.queue_words import arithmetic, steered, why
from dashboard.rendering.linking import (
    breakable,
    came_up,
    coded,
    first_clause,
    in_short,
    labels_linked,
    leading,
    levers_told,
    linked,
    without_beside,
    without_links,
)
from db.states import HypothesisState
from knowledge.queries.order.queue import QueueRow

ROW = QueueRow(
    rank=2,
    id="H-004",
    claim="It is faster.",
    lever="threads",
    change=(),
    predicted=None,
    min_effect=0.03,
    reason="second: could save 8 % [2, 14]; moved here by you at 12:03 (event 9)",
    score=None,
    pinned=False,
    proposer="rules",
    state=HypothesisState.QUEUED,
    latency_only=False,
    moved_from=5,
    move_reason="overtook H-022, after E-0005 was supported (event 128)",
    cause_event_id=128,
    cause=None,
)


def test_a_reason_is_one_sentence_whose_labels_lead_to_their_pages() -> None:
    assert why(ROW) == "Overtook H-022, after E-0005 was supported."
    assert linked(why(ROW)) == (
        'Overtook <a class="nb" href="/hypotheses/H-022">H-022</a>, '
        'after <a class="nb" href="/experiments/E-0005">E-0005</a> was supported.'
    )


def test_words_between_backticks_are_code_and_the_rest_is_escaped() -> None:
    assert coded("All stay (`none`) <b>") == "All stay (<code>none</code>) &lt;b&gt;"


def test_what_cites_the_user_stands_by_itself() -> None:
    assert steered(ROW.reason or "") == "moved here by you at 12:03 (event 9)"
    assert steered("second: could save 8 % [2, 14], 70 s") == ""


def test_the_score_shows_its_arithmetic_which_comes_out() -> None:
    score = {
        "score": 0.031 * 0.9 * 0.8 / 114 * 2,
        "gain": 0.031,
        "p_quality": 0.9,
        "p_feasible": 0.8,
        "cost_s": 114.0,
        "directive_factor": 2.0,
    }
    found = arithmetic(score)
    assert found.parts == "3.1 × 0.90 × 0.80 ÷ 1.9 × 2"
    assert float(found.score) == pytest.approx(3.1 * 0.9 * 0.8 / 1.9 * 2, abs=0.005)


def test_a_score_of_a_test_of_seconds_is_not_divided_by_nothing() -> None:
    score = {"score": 0.011, "gain": 0.011, "p_quality": 1.0, "p_feasible": 1.0, "cost_s": 1.0}
    found = arithmetic(score | {"directive_factor": 1.0})
    assert found.parts == "1.1 × 1.00 × 1.00 ÷ 0.017"
    assert "0.017 minutes" in found.spoken


def test_a_line_may_end_behind_the_parts_of_a_knob_and_what_it_holds_is_escaped() -> None:
    assert breakable("drafting.draft_tokens+<b>") == "drafting.<wbr>draft_<wbr>tokens+&lt;b&gt;"


def test_a_dozen_levers_at_once_are_told_as_two_and_how_many_more() -> None:
    assert levers_told("caching+graphs+kernel") == "caching+<wbr>graphs+<wbr>kernel"
    assert levers_told("<b>+graphs+kernel+kv_cache") == "&lt;b&gt;+<wbr>graphs and 2 more"


def test_a_knob_that_was_not_there_before_stands_without_a_value_before() -> None:
    assert came_up("a.b — → 2 with a.c on → off") == "a.b → 2 with a.c on → off"


def test_a_claim_in_a_list_says_what_the_change_does_and_not_what_stood_beside_it() -> None:
    claim = "Quantizing in groups of 32 instead of 128 (beside a.b 4, a.c raw) lowers bits per byte by 1.1 %"
    said = "Quantizing in groups of 32 instead of 128 lowers bits per byte by 1.1 %"
    assert without_beside(claim) == said == without_beside(said)
    html = without_beside(Markup("Spearman&#39;s &lt; (beside a.b 4) 1"))
    assert (str(html), isinstance(html, Markup)) == ("Spearman&#39;s &lt; 1", True)


def test_a_finding_in_short_is_what_it_says_of_the_change_alone() -> None:
    claim = (
        "Calibrating on b, not a (beside a.b 4) raises tasks solved by 7.5 points [5.3, 9.9] on model x; y"
    )
    assert in_short(claim) == "Calibrating on b, not a raises tasks solved by 7.5 points [5.3, 9.9]"
    assert in_short("It does not run: no compiler; on model x, engine y") == "It does not run: no compiler"


def test_a_label_that_a_refusal_cites_in_quotes_leads_nowhere() -> None:
    said = linked("It builds on 'F-999', which is no finding in scope; F-001 is.")
    assert labels_linked(said) == {"F-001"}


def test_links_to_what_there_is_not_become_text_and_the_rest_stays_as_it_was() -> None:
    said = linked("C-99 < C-1: it's none")
    assert labels_linked(said) == {"C-99", "C-1"}
    assert without_links(said, {"C-99"}) == (
        'C-99 &lt; <a class="nb" href="/campaigns/C-1">C-1</a>: it&#39;s none'
    )
    assert without_links(said, ()) == said


def test_a_first_clause_keeps_its_brackets_whole() -> None:
    said = "Tasks −1.3 points (at worst −2.8; 1200 items), so nothing; ended after 480 s (of 608 s; all)"
    assert first_clause(said) == "Tasks −1.3 points (at worst −2.8; 1200 items), so nothing"
    assert first_clause("One clause.") == "One clause."
    assert (leading("bits per byte"), leading("")) == ("Bits per byte", "")

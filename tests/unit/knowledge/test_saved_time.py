"""Seconds that stopping early saved over a campaign, where they are known."""

from __future__ import annotations

from knowledge.queries.saved_time import saving


def test_what_was_saved_is_summed_over_the_verdicts_that_tell_their_plan() -> None:
    details = [
        {"spent_s": 41.0, "planned_s": 160.0},
        {"spent_s": 90.04, "planned_s": 90.04},
        {"spent_s": None, "planned_s": None},
        None,
    ]
    assert saving(details) == {
        "experiments": 2,
        "unknown": 2,
        "spent_s": 131.0,
        "planned_s": 250.0,
        "saved_s": 119.0,
    }


def test_without_verdicts_nothing_was_saved() -> None:
    assert saving([])["saved_s"] == 0

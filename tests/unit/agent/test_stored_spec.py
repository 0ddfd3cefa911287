"""What is found on a campaign's ground after it began is kept beside what was found before."""

from __future__ import annotations

from agent.ground.stored_spec import FOUND, START, keep_found
from db.models import Campaign


def test_what_is_found_later_is_kept_in_place_of_what_was_by_that_name_alone() -> None:
    campaign = Campaign(spec={"seed": 7, FOUND: {"checkpoint": "/m", START: {"words": "16 bits"}}})
    before = campaign.spec
    keep_found(campaign, START, {"words": "8 bits"})
    keep_found(campaign, "more", [1])
    assert campaign.spec == {
        "seed": 7,
        FOUND: {"checkpoint": "/m", START: {"words": "8 bits"}, "more": [1]},
    }
    assert before[FOUND][START] == {"words": "16 bits"}, "a change within a stored value would not be stored"


def test_where_nothing_is_found_any_more_nothing_is_kept() -> None:
    campaign = Campaign(spec={FOUND: {"checkpoint": "/m", "more": [1]}})
    keep_found(campaign, "more", [])
    assert campaign.spec == {FOUND: {"checkpoint": "/m"}}
    keep_found(campaign, "more", [])
    assert campaign.spec == {FOUND: {"checkpoint": "/m"}}

"""How a campaign goes on that ended before it judged anything: by a command that does so, or not at all."""

import pytest

from db.states import CampaignState
from knowledge.going_on import STOPPED_BY_USER, USER_STOPPED_IT, how_to_go_on

RESUME = "Nothing was judged; go on with: autoinfer run --resume C-1"
SPENT = "the budget of 8 min is spent and the baseline not measured"
NEARLY = "the budget of 8 min is nearly spent: 20 s are left, and none of 3 queued hypotheses fits into them"


@pytest.mark.parametrize(
    ("why", "spent_s", "said"),
    [
        (SPENT, 480.0, f"{RESUME} --budget 30m"),
        (f"{SPENT}; 2 questions of 2 left open: a, b", 480.0, f"{RESUME} --budget 30m"),
        (NEARLY, 460.0, f"{RESUME} --budget 30m"),
        (USER_STOPPED_IT, 60.0, RESUME),
        (STOPPED_BY_USER, 60.0, RESUME),
        (STOPPED_BY_USER, 481.0, f"{RESUME} --budget 30m"),
        ("nothing that is left is worth its price", 60.0, None),
        ("the baseline could not be measured: it did not load", 60.0, None),
        (
            "J-1 waits; approve with autoinfer approve J-1, then go on with autoinfer run --resume C-1",
            9.0,
            None,
        ),
        (None, 60.0, None),
    ],
)
def test_it_is_said_where_more_time_is_what_it_lacks(
    why: str | None, spent_s: float, said: str | None
) -> None:
    ended = CampaignState.STOPPED
    assert how_to_go_on("C-1", ended, why, judged=0, spent_s=spent_s, budget_s=480.0) == said
    assert how_to_go_on("C-1", ended, why, judged=1, spent_s=spent_s, budget_s=480.0) is None


@pytest.mark.parametrize("state", [each for each in CampaignState if each is not CampaignState.STOPPED])
def test_nothing_is_said_of_one_that_has_not_ended(state: CampaignState) -> None:
    assert how_to_go_on("C-1", state, SPENT, judged=0, spent_s=480.0, budget_s=480.0) is None

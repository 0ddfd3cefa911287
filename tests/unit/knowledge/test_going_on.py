"""How a campaign goes on that ended before it judged anything, or that no process drives: by a command that
does so, or not at all."""

import pytest

from db.states import CampaignState
from knowledge.going_on import STOPPED_BY_USER, USER_STOPPED_IT, how_to_go_on

RESUME = "Nothing was judged; go on with: autoinfer run --resume C-1"
SPENT = "the budget of 8m is spent and the baseline not measured"
NEARLY = "the budget of 8m is nearly spent: 20 s are left, and none of 3 queued hypotheses fits into them"


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
    of = {"driven": False, "spent_s": spent_s, "budget_s": 480.0}
    assert how_to_go_on("C-1", ended, why, judged=0, **of) == said
    assert how_to_go_on("C-1", ended, why, judged=1, **of) is None


@pytest.mark.parametrize("state", [each for each in CampaignState if each is not CampaignState.STOPPED])
def test_of_one_that_has_not_ended_it_is_said_where_no_process_drives_it(state: CampaignState) -> None:
    def said(driven: bool, spent_s: float) -> str | None:
        return how_to_go_on("C-1", state, None, driven=driven, judged=3, spent_s=spent_s, budget_s=480.0)

    assert said(True, 480.0) is None
    assert said(False, 60.0) == "No process drives it now; go on with: autoinfer run --resume C-1"
    assert (
        said(False, 480.0) == "No process drives it now; go on with: autoinfer run --resume C-1 --budget 30m"
    )

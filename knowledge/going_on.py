"""How a campaign goes on that ended before it judged anything, or that no process drives. Pure."""

from __future__ import annotations

from db.states import CampaignState

USER_STOPPED_IT = "the user stopped it"
"""Why a campaign ended that no process drove when its user stopped it."""

STOPPED_BY_USER = "stopped by the user"
"""Why one ended that was driven."""

BUDGET_OF = "the budget of "
"""How every reason begins that is about the budget."""


def how_to_go_on(
    campaign: str,
    state: CampaignState,
    stopped_because: str | None,
    *,
    driven: bool,
    judged: int,
    spent_s: float,
    budget_s: float,
) -> str | None:
    """That nothing was judged, or that no process drives it now, and how to go on, in a sentence; None where
    it is driven, or ended with something judged or for what more time would not change.

    More budget is asked for where none is left: given beside what is left, it would replace that.
    """
    why = stopped_because or ""
    if state is CampaignState.STOPPED:
        if judged or not why.startswith((USER_STOPPED_IT, STOPPED_BY_USER, BUDGET_OF)):
            return None
        said = "Nothing was judged"
    elif driven:
        return None
    else:
        said = "No process drives it now"
    needs_more = why.startswith(BUDGET_OF) or spent_s >= budget_s
    more = " --budget 30m" if needs_more else ""
    return f"{said}; go on with: autoinfer run --resume {campaign}{more}"

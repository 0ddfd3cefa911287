"""How a campaign goes on that was interrupted, or that ended before it judged anything. Pure."""

from __future__ import annotations

from db.states import CampaignState

USER_STOPPED_IT = "the user stopped it"
"""Why a campaign ended that no process drove when its user stopped it."""

STOPPED_BY_USER = "stopped by the user"
"""Why one ended that was driven."""

BUDGET_OF = "the budget of "
"""How every reason begins that is about the budget."""


NOTHING_LEFT = ("nothing left is worth its price", "nothing is left in the queue")
"""How the reasons begin that more time would not change, but another hypothesis may."""


def helped_by_time(stopped_because: str | None) -> bool:
    """Whether a campaign that ended for this reason goes on if it is taken up again."""
    return (stopped_because or "").startswith((USER_STOPPED_IT, STOPPED_BY_USER, BUDGET_OF))


def lacks_time(stopped_because: str | None, spent_s: float, budget_s: float) -> bool:
    """Whether it needs more budget for that: given beside what is left, more would replace that."""
    return (stopped_because or "").startswith(BUDGET_OF) or spent_s >= budget_s


def is_exhausted(stopped_because: str | None) -> bool:
    """Whether it ended because nothing that it knows of is worth a test."""
    return (stopped_because or "").startswith(NOTHING_LEFT)


def how_to_go_on(
    campaign: str,
    state: CampaignState,
    stopped_because: str | None,
    *,
    interrupted: bool = False,
    judged: int,
    spent_s: float,
    budget_s: float,
) -> str | None:
    """How to go on, in a sentence, and where it ended that nothing was judged; None where something was
    judged, it goes on by itself, or it ended for what more time would not change. What turned out to be
    infeasible is not among the `judged`: of it nothing was measured.

    More budget is asked for where none is left: given beside what is left, it would replace that.
    """
    if interrupted:
        more = " --budget 30m" if spent_s >= budget_s else ""
        return f"Go on with: autoinfer run --resume {campaign}{more}"
    why = stopped_because or ""
    if state is not CampaignState.STOPPED or judged or not helped_by_time(why):
        return None
    more = " --budget 30m" if lacks_time(why, spent_s, budget_s) else ""
    return f"Nothing was judged; go on with: autoinfer run --resume {campaign}{more}"

"""Approval: what a campaign does not spend unasked, and the quote by which the user decides. Pure.

A cost is in seconds of the target's time. A hypothesis's `score` is its place in the ranking: the expected
cost (`cost_s`), the cost if all of its plan is measured (`most_s`), and whether it waits.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import ColumnElement, and_

from configs.quantities import format_duration
from db.models import Hypothesis
from knowledge.acts.directives import WAITING
from knowledge.queries.view import View
from knowledge.stored import number

APPROVE_ABOVE_S = "approve_above_s"
"""Where a campaign's `budget` keeps the cost above which the user is asked; absent where nothing waits."""

AWAITS, APPROVED_BY = "awaits_approval", "approved_by"
"""Where a hypothesis's `score` keeps whether it waits, and the event by which it may be tested."""

UP_TO_S = "up_to_s"
"""Where the `value` of an approval keeps the expected seconds up to which it holds; absent: whatever they
are."""


class ApprovalView(View):
    """A quote and what became of it; `most_s` None where nobody can tell, `event_id` that of the approval.

    `waits` is False where it was approved.
    """

    waits: bool
    cost_s: float
    most_s: float | None
    event_id: int | None

    @property
    def beyond_s(self) -> float | None:
        """What it takes if all of its plan is measured, where that is more than expected."""
        more = self.most_s is not None and round(self.most_s) > round(self.cost_s)
        return self.most_s if more else None

    @property
    def words(self) -> str:
        """The quote as a clause."""
        return quote_words(self.cost_s, self.most_s)


def approve_above_s(budget: Mapping[str, object]) -> float | None:
    """The expected seconds of an experiment above which a campaign asks first; None where it never does."""
    return number(budget.get(APPROVE_ABOVE_S))


def awaits_approval(hypothesis: Hypothesis) -> bool:
    """Whether a hypothesis that stands in the queue may not be tested before the user says so."""
    return hypothesis.state in WAITING and (hypothesis.score or {}).get(AWAITS) is True


def waits_in_queue() -> ColumnElement[bool]:
    """The same for a statement."""
    return and_(Hypothesis.state.in_(sorted(WAITING)), Hypothesis.score[AWAITS].as_boolean().is_(True))


def approval_of(hypothesis: Hypothesis) -> ApprovalView | None:
    """What stands in the queue of its approval; None where it needs none, and once its test has begun."""
    score = hypothesis.score or {}
    event_id, cost_s = number(score.get(APPROVED_BY)), number(score.get("cost_s"))
    waits = score.get(AWAITS) is True
    if hypothesis.state not in WAITING or cost_s is None or not (waits or event_id is not None):
        return None
    return ApprovalView(
        waits=waits,
        cost_s=cost_s,
        most_s=number(score.get("most_s")),
        event_id=None if event_id is None else int(event_id),
    )


def quote_words(cost_s: float, most_s: float | None) -> str:
    """An expected cost, and the one if all of the plan is measured, as a clause."""
    expected = f"expected to take {format_duration(round(cost_s))}"
    if most_s is None or round(most_s) <= round(cost_s):
        return expected
    return f"{expected}, and {format_duration(round(most_s))} if all of its plan is measured"

"""Counts of what a machine's watcher asks for: the queue, its leases, what was spent, the log."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from db import events
from db.clock import now
from db.models import Campaign, Experiment, Hypothesis, Job
from db.states import CampaignState, ExperimentState, HypothesisState, JobState
from knowledge.acts.approvals import waits_in_queue
from knowledge.queries.spent.money import BudgetView, MoneyRow, budget_views, by_target
from knowledge.queries.view import View


class VitalsView(View):
    """Counts by state; `awaiting` are hypotheses that wait for the user's approval, `expired_leases`
    running jobs whose worker has not renewed in time, `spent_s` is the time that the experiments of all
    campaigns took; `paid` is by target, in dollars."""

    campaigns: dict[str, int]
    hypotheses: dict[str, int]
    awaiting: int
    experiments: dict[str, int]
    jobs: dict[str, int]
    leases: int
    expired_leases: int
    spent_s: float
    last_event_id: int
    paid: tuple[MoneyRow, ...]
    budgets: tuple[BudgetView, ...]


def vitals(session: Session) -> VitalsView:
    """Count by state, each by one statement; a state that nothing is in counts zero."""
    jobs = _by_state(session, Job.state, JobState)
    expired = select(func.count()).where(Job.state == JobState.RUNNING, Job.lease_expires_at < now())
    return VitalsView(
        campaigns=_by_state(session, Campaign.state, CampaignState),
        hypotheses=_by_state(session, Hypothesis.state, HypothesisState),
        awaiting=session.scalar(select(func.count()).select_from(Hypothesis).where(waits_in_queue())) or 0,
        experiments=_by_state(session, Experiment.state, ExperimentState),
        jobs=jobs,
        leases=jobs[JobState.RUNNING.value],
        expired_leases=session.scalar(expired) or 0,
        spent_s=session.scalar(select(func.sum(Experiment.wall_s))) or 0.0,
        last_event_id=events.last_id(session),
        paid=by_target(session),
        budgets=budget_views(session),
    )


def _by_state(
    session: Session, column: InstrumentedAttribute[StrEnum], vocabulary: type[StrEnum]
) -> dict[str, int]:
    found = {state.value: 0 for state in vocabulary}
    for state, count in session.execute(select(column, func.count()).group_by(column)):
        found[state.value] = count
    return found

"""What is at work, and what was interrupted: a machine that went off leaves all of it as if it ran.

A worker keeps the lease of its job while it lives. Once that has run out, nobody measures any more, whatever
the states of job, experiment and hypothesis say until somebody goes on with the campaign. But what was sent
to a rented machine goes on there without its worker, and counts as under test; that nobody looks after it is
told beside what it costs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from sqlalchemy import ColumnElement, and_, exists, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from db.at_work import at_work
from db.campaign_owner import is_driven_at
from db.models import Campaign, Experiment, Job, RemoteRun
from db.states import CampaignState, ExperimentState, JobState, RemoteRunState
from knowledge.queries.ended_tests import EndedTest
from knowledge.queries.view import View

_GOES_ON = (CampaignState.RUNNING, CampaignState.STOPPING)
"""States in which something is to happen by itself."""

_LEFT = (JobState.RUNNING, JobState.QUEUED)
"""States of a job whose experiment has not ended; of one that had begun, `queued` once it was taken back."""


INTERRUPTED = "interrupted"
"""The word for it where a state is shown."""


class Interrupted(View):
    """Of an experiment that nobody measures any more: when the lease of its job ran out, None where that was
    taken back since and waits for a worker."""

    since: datetime | None


def in_a_word(state: str, interrupted: object, ended: EndedTest | None = None) -> str:
    """A state in a word, which is another one of what was interrupted, and of a hypothesis whose test has
    `ended`."""
    if ended is not None:
        return ended.word
    return INTERRUPTED if interrupted else state


def interrupted_experiments(session: Session, experiment_ids: Collection[int]) -> dict[int, Interrupted]:
    """Those of these that had begun and that nobody measures any more; one statement."""
    return _interrupted(session, Experiment.id, experiment_ids)


def interrupted_tests(session: Session, hypothesis_ids: Collection[int]) -> dict[int, Interrupted]:
    """The same of hypotheses under test."""
    return _interrupted(session, Experiment.hypothesis_id, hypothesis_ids)


def interrupted_campaigns(
    session: Session, campaigns: Iterable[Campaign], present: datetime
) -> frozenset[int]:
    """Those of these that should go on, and that nothing drives and no worker works for; one statement, and
    none where all are driven or none should go on."""
    left = [each.id for each in campaigns if each.state in _GOES_ON and not is_driven_at(each, present)]
    if not left:
        return frozenset()
    measured = select(Experiment.campaign_id).where(
        Experiment.campaign_id.in_(left), Experiment.state == ExperimentState.RUNNING, ~_unheard()
    )
    worked_for = select(Job.campaign_id).where(Job.campaign_id.in_(left), at_work())
    return frozenset(left).difference(session.scalars(measured.union(worked_for)))


def count_interrupted(session: Session, campaign_id: int | None = None) -> int:
    """How many experiments had begun and are measured by nobody any more, of a campaign or of all."""
    query = (
        select(func.count())
        .select_from(Experiment)
        .where(Experiment.state == ExperimentState.RUNNING, _unheard())
    )
    if campaign_id is not None:
        query = query.where(Experiment.campaign_id == campaign_id)
    return session.scalar(query) or 0


def _unheard() -> ColumnElement[bool]:
    """Whether an experiment has a job that nobody works at."""
    return exists().where(Job.experiment_id == Experiment.id, _left_alone())


def _left_alone() -> ColumnElement[bool]:
    """Whether a job that has begun is measured by nobody any more, here or on a rented machine."""
    is_away = exists().where(RemoteRun.job_id == Job.id, RemoteRun.state != RemoteRunState.ENDED)
    return and_(Job.state.in_(_LEFT), ~at_work(), ~is_away)


def _interrupted(
    session: Session, by: InstrumentedAttribute[int] | InstrumentedAttribute[int | None], ids: Collection[int]
) -> dict[int, Interrupted]:
    query = (
        select(by, Job.state, Job.lease_expires_at)
        .join(Job, Job.experiment_id == Experiment.id)
        .where(
            by.in_(ids),
            Experiment.state == ExperimentState.RUNNING,
            _left_alone(),
        )
    )
    return {
        number: Interrupted(since=expired if state is JobState.RUNNING else None)
        for number, state, expired in session.execute(query)
        if number is not None
    }

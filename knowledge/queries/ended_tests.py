"""Tests that ended while nothing drives their campaign: what they tested stands as under test meanwhile.

A worker measures; the campaign's loop concludes. Where the loop is gone, an experiment may fail or be
measured to its end, and its hypothesis keeps the state that it had. That is no test any more.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import or_, select
from sqlalchemy.orm import Session, load_only

from db.campaign_owner import is_driven_at
from db.clock import now
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Hypothesis, Job
from db.states import FINAL_JOB_STATES, ExperimentKind, ExperimentState, HypothesisState, JobState
from knowledge.queries.view import View

_WORDS = {
    ExperimentState.DONE: "test done",
    ExperimentState.FAILED: "test failed",
    ExperimentState.CANCELLED: "test cancelled",
}
"""The word for each where the state of a hypothesis is shown."""

_STATES = {
    JobState.DONE: ExperimentState.DONE,
    JobState.FAILED: ExperimentState.FAILED,
    JobState.CANCELLED: ExperimentState.CANCELLED,
}
"""How an experiment ended whose worker could not say so, by the state of its job."""

_LOST = "every worker that took it was lost"
"""Why one failed of which nobody told a cause."""


class EndedTest(View):
    """The test of a hypothesis that has ended, and of which nothing is concluded before its campaign goes on;
    `failure` says why it did not come to its end."""

    experiment: str
    state: ExperimentState
    failure: str | None

    @property
    def word(self) -> str:
        """How it ended, in the words for a state."""
        return _WORDS[self.state]

    @property
    def clause(self) -> str:
        """How it ended and what follows, as a clause."""
        why = f": {self.failure.strip().rstrip('.')}" if self.failure else ""
        match self.state:
            case ExperimentState.FAILED:
                then = "what follows from that is decided when the campaign goes on"
                return f"{self.experiment} failed{why}; {then}"
            case ExperimentState.CANCELLED:
                return f"{self.experiment} was cancelled{why}; it waits again when the campaign goes on"
        return f"{self.experiment} was measured to its end; it is judged when the campaign goes on"


def ended_tests(session: Session, hypothesis_ids: Collection[int]) -> dict[int, EndedTest]:
    """The tests of those of these that stand as under test, whose newest test has ended, and whose campaign
    nothing drives; one statement, and one more for the database's clock."""
    query = (
        select(Experiment, Job.state, Job.error, Campaign)
        .options(
            load_only(Experiment.hypothesis_id, Experiment.state, Experiment.failure),
            load_only(Campaign.owner, Campaign.owner_lease_expires_at),
        )
        .join(Job, Job.experiment_id == Experiment.id)
        .join(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .join(Campaign, Campaign.id == Hypothesis.campaign_id)
        .where(
            Hypothesis.id.in_(hypothesis_ids),
            Hypothesis.state == HypothesisState.TESTING,
            or_(
                Experiment.kind == ExperimentKind.TEST,
                (Experiment.kind == ExperimentKind.PROMOTE) & (Hypothesis.target != ""),
            ),
        )
        .order_by(Job.id)
    )
    newest = {
        each.hypothesis_id: (_ended(each, state, error), campaign)
        for each, state, error, campaign in session.execute(query)
    }
    if all(ended is None for ended, _ in newest.values()):
        return {}
    present = session.scalars(select(now())).one()
    return {
        number: ended
        for number, (ended, campaign) in newest.items()
        if number is not None and ended is not None and not is_driven_at(campaign, present)
    }


def _ended(experiment: Experiment, job: JobState, error: str | None) -> EndedTest | None:
    """How the experiment of a job ended; None while the job has not."""
    if job not in FINAL_JOB_STATES:
        return None
    by_worker = experiment.state in _WORDS
    state = experiment.state if by_worker else _STATES[job]
    failure = experiment.failure if by_worker else error
    return EndedTest(
        experiment=format_label(Noun.EXPERIMENT, experiment.id),
        state=state,
        failure=failure or (_LOST if state is ExperimentState.FAILED else None),
    )

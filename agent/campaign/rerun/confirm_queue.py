"""Confirmations on other targets in the campaign's own queue: how they get in, out to a target, and end.

A hypothesis with a target of its own stands for one. Its test is an experiment as `promote` makes it, which
never makes a step on the way to the best: only the campaign's own target does.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from agent.campaign.known.facts import Facts, Queued
from agent.campaign.learning.learn import tell_requeued
from agent.campaign.queue.accept import put_down
from agent.campaign.rerun.confirm import conclude
from agent.campaign.rerun.confirming import drafts
from agent.campaign.rerun.elsewhere import check_arms, find_elsewhere
from agent.campaign.rerun.promote import Asked, Promoted, ask, promote
from agent.campaign.resources.device_faults import AT_ONCE, WAITS_AGAIN, GaveOut
from agent.campaign.resources.devices import leave_out, of_its_queue
from agent.proposers.port import Draft
from agent.ranking.values import Place
from configs.errors import AutoinferError, UsageError
from configs.quantities import format_duration, format_usd
from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Experiment, Hypothesis, Job
from db.states import FINAL_JOB_STATES, ExperimentKind, ExperimentState, HypothesisState, JobState

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Found:
    """What was supported and is to be confirmed on `target`; `impossible` says why it can't run there."""

    draft: Draft
    confirms: int
    target: str
    impossible: str | None = None


def supported(facts: Facts) -> list[Found]:
    """What was supported and is not in the queue yet, once for each target that the campaign confirms on,
    looked at there. A device that is not there now is looked at again when the queue is ranked next."""
    found = []
    for draft, trial, target in drafts(facts):
        arms = {"control": trial.control, "candidate": trial.candidate}
        try:
            check_arms(facts, find_elsewhere(target), arms)
        except UsageError as error:
            found.append(Found(draft, trial.experiment_id, target, error.message))
        except AutoinferError as error:
            _LOG.warning("%s", error)
        else:
            found.append(Found(draft, trial.experiment_id, target))
    return found


def take_in_supported(session: Session, facts: Facts, found: Sequence[Found]) -> None:
    """Put them into the queue; what can't run there is put down as infeasible, with the reason."""
    for each in found:
        put_down(
            session,
            facts.id,
            each.draft,
            facts.spec.plan.metric,
            impossible=each.impossible,
            target=each.target,
            confirms=each.confirms,
        )


def look_at(session: Session, queued: Queued) -> Asked | str:
    """The confirmation as it would be sent now; why it can't be, in a sentence."""
    assert queued.confirms is not None
    try:
        return ask(session, queued.confirms, queued.target)
    except AutoinferError as error:
        return error.message


def send(session: Session, queued: Queued, place: Place, asked: Asked | str) -> Promoted | None:
    """Put the test of a confirmation into the durable queue, for its target; None where it can't run there,
    or is under way by hand, which ends it with the reason."""
    row = session.get_one(Hypothesis, queued.id)
    if row.state is not HypothesisState.QUEUED:
        return None  # it was withdrawn meanwhile
    if isinstance(asked, str):
        _end(session, row, HypothesisState.INFEASIBLE, asked)
        return None
    if asked.unfinished is not None:
        by_hand = format_label(Noun.EXPERIMENT, asked.unfinished)
        _end(session, row, HypothesisState.WITHDRAWN, f"{by_hand} confirms it there already, by hand")
        return None
    sent = promote(session, asked, None, agreed=True, hypothesis_id=row.id, by_queue=_price_words(place))
    row.state, row.state_changed_at, row.rank = HypothesisState.TESTING, now(), None
    row.preregistration_digest = session.get_one(Experiment, sent.experiment_id).preregistration_digest
    return sent


def _price_words(place: Place) -> str:
    time = f"expected to take {format_duration(round(place.cost_s))} there"
    return time if place.usd is None else f"{time} and to cost {format_usd(place.usd)}"


def _end(session: Session, row: Hypothesis, state: HypothesisState, why: str) -> None:
    row.state, row.state_reason, row.state_changed_at, row.rank = state, why, now(), None
    events.append(
        session,
        EventKind.HYPOTHESIS_WITHDRAWN,
        f"Withdrawn: {why.rstrip('.')}.",
        format_label(Noun.HYPOTHESIS, row.id),
        row.campaign_id,
    )


def out_there(session: Session, campaign_id: int) -> dict[str, JobState]:
    """The targets for which a confirmation of the queue waits or runs, with the state of its job."""
    alive = (JobState.QUEUED, JobState.RUNNING)
    query = select(Job.device_class, Job.state).where(
        Job.campaign_id == campaign_id, Job.state.in_(alive), of_its_queue()
    )
    return {device: state for device, state in session.execute(query.order_by(Job.id))}  # noqa: C416 - rows


def unlearnt_there(session: Session, campaign_id: int) -> list[int]:
    """Confirmations of the queue that ended on their target and of which nothing was concluded yet."""
    other = aliased(Experiment)
    newest = (
        select(func.max(other.id))
        .where(other.hypothesis_id == Experiment.hypothesis_id, other.kind == ExperimentKind.PROMOTE)
        .correlate(Experiment)
        .scalar_subquery()
    )
    query = (
        select(Experiment.id)
        .join(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .join(Job, Job.experiment_id == Experiment.id)
        .where(
            Experiment.campaign_id == campaign_id,
            Experiment.kind == ExperimentKind.PROMOTE,
            Experiment.id == newest,
            Hypothesis.target != "",
            Hypothesis.state == HypothesisState.TESTING,
            Job.state.in_(FINAL_JOB_STATES),
        )
        .order_by(Experiment.id)
    )
    return list(session.scalars(query))


def learn_there(session: Session, experiment_id: int) -> HypothesisState:
    """Judge what a target said, compare it with the first, and give the hypothesis its state; it waits again
    where its job was taken back or its device was not to be had.

    A target that is lost, or whose machine has a full disk, gets nothing more until the campaign is resumed:
    what is sent there next would end so too, and a rented one is paid for.
    """
    experiment = session.get_one(Experiment, experiment_id)
    row = session.get_one(Hypothesis, experiment.hypothesis_id)
    row.state_changed_at = now()
    if experiment.state is ExperimentState.CANCELLED or experiment.failure_kind in WAITS_AGAIN:
        row.state = HypothesisState.QUEUED
        tell_requeued(session, experiment, row.target)
        if experiment.failure_kind in AT_ONCE:
            gone = GaveOut(row.target, experiment.failure_kind, (experiment.failure or "").rstrip("."))
            leave_out(session, experiment.campaign_id, row.target, gone.why("it"))
        return row.state
    told = conclude(session, experiment_id)
    if isinstance(told, str):
        row.state, row.state_reason = HypothesisState.INCONCLUSIVE, told
    else:
        row.state, row.state_reason = HypothesisState(told.fresh_outcome.value), told.reason
    return row.state


def overdue_there(session: Session, campaign_id: int) -> list[int]:
    """Confirmations of a campaign that ends which nobody runs yet."""
    query = select(Job.id).where(
        Job.campaign_id == campaign_id,
        Job.state == JobState.QUEUED,
        Job.cancel_requested.is_(False),
        of_its_queue(),
    )
    return list(session.scalars(query.order_by(Job.id)))

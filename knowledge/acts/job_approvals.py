"""Approving the price of a job for a paid target, and taking that back: writes, each with its event."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.errors import UsageError
from configs.quantities import format_usd
from db import events, money
from db.agreed_prices import agree_to_rise
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Experiment, Job, JobQuote
from db.states import JobState


def job_that_asks(session: Session, hypothesis_id: int) -> int | None:
    """The job of a hypothesis whose price waits for approval, or has it; None where there is none."""
    query = (
        select(JobQuote.job_id)
        .join(Job, Job.id == JobQuote.job_id)
        .join(Experiment, Experiment.id == Job.experiment_id)
        .where(Experiment.hypothesis_id == hypothesis_id, Job.state == JobState.QUEUED)
        .where(JobQuote.needs_approval | JobQuote.approved_microusd.is_not(None))
        .order_by(JobQuote.job_id.desc())
        .limit(1)
    )
    found: int | None = session.scalar(query)
    return found


def approve_price(session: Session, job_id: int, up_to_usd: float | None = None) -> JobQuote:
    """Let a job be submitted for what it is quoted at most now, or for `up_to_usd` at most.

    Its budgets must have room all the same. Raises `UsageError` where its price waits for no approval, and
    where it is quoted more than `up_to_usd`.
    """
    label, quote = format_label(Noun.JOB, job_id), _waiting(session, job_id)
    most = quote.bound_microusd if up_to_usd is None else money.microusd(up_to_usd)
    if quote.bound_microusd > most:
        raise UsageError(
            f"{label} is quoted {format_usd(money.usd(quote.bound_microusd))} at most, which is more than "
            f"{format_usd(money.usd(most))}."
        )
    quote.approved_microusd, quote.needs_approval = most, False
    if quote.bound_s > 0:
        campaign_id = session.get_one(Job, job_id).campaign_id
        agree_to_rise(session, campaign_id, quote.target, money.usd(quote.bound_microusd) / quote.bound_s)
    _tell(session, job_id, f"{label} may cost {format_usd(money.usd(most))} at most.")
    return quote


def unapprove_price(session: Session, job_id: int) -> JobQuote:
    """Take the approval of a job's price back before it is submitted."""
    label, quote = format_label(Noun.JOB, job_id), _waiting(session, job_id)
    if not quote.approved_microusd:
        raise UsageError(f"The price of {label} was not approved.")
    quote.approved_microusd, quote.needs_approval = money.NOTHING_YET, True
    _tell(session, job_id, f"{label} is no longer approved.")
    return quote


def _waiting(session: Session, job_id: int) -> JobQuote:
    label = format_label(Noun.JOB, job_id)
    job, quote = session.get(Job, job_id), session.get(JobQuote, job_id)
    if job is None:
        raise UsageError(f"{label} does not exist.")
    if job.state is not JobState.QUEUED:
        raise UsageError(f"{label} does not wait: it is {job.state.value}.")
    if quote is None or not (quote.needs_approval or quote.approved_microusd is not None):
        raise UsageError(f"The price of {label} waits for no approval.")
    return quote


def _tell(session: Session, job_id: int, text: str) -> None:
    job = session.get_one(Job, job_id)
    session.flush()
    events.append(session, EventKind.JOB_APPROVED, text, format_label(Noun.JOB, job_id), job.campaign_id)

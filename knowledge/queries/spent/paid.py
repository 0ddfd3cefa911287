"""Jobs on rented machines with what they cost: quoted, expected, and told by the provider when they ended."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.targets import is_rented
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Hypothesis, Job, JobQuote, RemoteRun
from db.money import usd
from db.states import JobState, RemoteRunState
from knowledge.queries.spent.money import worth
from knowledge.queries.view import View


class PaidJobView(View):
    """A job with its price, US dollars. `why` says why it waits, `asks` that the user's approval lets it go;
    `actual_usd` is None until its runs have ended and the provider told, `billed` where its bill says so.
    `gain` is the share of its metric that it is expected to gain, `usd_per_percent` the price of each per
    cent of it."""

    job: str
    experiment: str | None
    hypothesis: str | None
    claim: str | None
    target: str
    waits: bool
    why: str | None
    asks: bool
    bound_usd: float
    expected_usd: float
    actual_usd: float | None
    billed: bool
    basis: str
    gain: float | None
    usd_per_percent: float | None


def paid_now(session: Session, campaign: Campaign) -> tuple[PaidJobView, ...]:
    """The jobs of a campaign that wait or run on rented machines, the first first; nothing is asked of one
    that measures and confirms on this machine alone."""
    targets = (campaign.spec.get("target", ""), *(campaign.spec.get("confirm_on") or ()))
    if not any(is_rented(str(each)) for each in targets):
        return ()
    alive = Job.state.in_((JobState.QUEUED, JobState.RUNNING))
    return _paid(session, Job.campaign_id == campaign.id, alive)


def paid_for(session: Session, experiment_id: int) -> PaidJobView | None:
    """What an experiment costs, by its newest job, all runs of which count; None where nothing is paid."""
    found = _paid(session, Job.experiment_id == experiment_id)
    return found[-1] if found else None


def _paid(session: Session, *where: object) -> tuple[PaidJobView, ...]:
    query = (
        select(JobQuote, Job.state, Job.experiment_id, Hypothesis)
        .join(Job, Job.id == JobQuote.job_id)
        .outerjoin(Experiment, Experiment.id == Job.experiment_id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .where(*where)  # type: ignore[arg-type]
        .order_by(Job.id)
    )
    rows = session.execute(query).all()
    if not rows:
        return ()
    runs: dict[int, list[RemoteRun]] = {}
    jobs = [quote.job_id for quote, *_ in rows]
    for run in session.scalars(select(RemoteRun).where(RemoteRun.job_id.in_(jobs)).order_by(RemoteRun.id)):
        runs.setdefault(run.job_id, []).append(run)
    return tuple(_view(*row, runs.get(row[0].job_id, [])) for row in rows)


def _view(
    quote: JobQuote,
    state: JobState,
    experiment_id: int | None,
    hypothesis: Hypothesis | None,
    runs: list[RemoteRun],
) -> PaidJobView:
    expected_usd = usd(quote.expected_microusd)
    gain, each = worth(hypothesis, expected_usd)
    settled = [
        run.actual_microusd
        for run in runs
        if run.state is RemoteRunState.ENDED and run.actual_microusd is not None
    ]
    is_settled = bool(runs) and len(settled) == len(runs)
    waits = state is JobState.QUEUED
    return PaidJobView(
        job=format_label(Noun.JOB, quote.job_id),
        experiment=None if experiment_id is None else format_label(Noun.EXPERIMENT, experiment_id),
        hypothesis=None if hypothesis is None else format_label(Noun.HYPOTHESIS, hypothesis.id),
        claim=None if hypothesis is None else hypothesis.claim,
        target=quote.target,
        waits=waits,
        why=quote.waits_because if waits else None,
        asks=waits and quote.needs_approval,
        bound_usd=usd(quote.bound_microusd),
        expected_usd=expected_usd,
        actual_usd=usd(sum(settled)) if is_settled else None,
        billed=is_settled and all(run.billed for run in runs),
        basis=quote.basis,
        gain=gain,
        usd_per_percent=each,
    )

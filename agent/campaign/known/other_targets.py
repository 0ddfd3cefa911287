"""The targets that a campaign confirms on: what is known of their price, their pace, the wait, and what ran
there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from agent.campaign.known.judged_time import JUDGED_S
from agent.ground.stored_spec import keep_found
from agent.proposers.port import Trial
from configs.targets import is_rented
from db import money
from db.models import Campaign, Experiment, Hypothesis, Job, JobQuote, RemoteRun, Verdict
from db.states import ExperimentKind, RemoteRunState
from experiments.measurement.judging import Outcome
from knowledge.queries.devices import why_out

TERMS = "confirm_on"
"""Where a stored campaign keeps, with what was found, the terms of the targets that it confirms on."""

START_S, FIRST_START_S = 120.0, 600.0
"""Seconds before anything runs on a rented machine, where no run here has told: a container is started; the
first time on a target its image is fetched too. Judgements; three runs there and their median counts."""

FEWEST_WAITS = 3
"""Runs on a target whose median wait is believed."""

NEWEST = 20
"""The newest runs that a wait is taken from."""


@dataclass(frozen=True)
class Terms:
    """What is known of a target before anything ran there: the price of a second and the bound of a test in
    dollars, None where it costs none; its memory's bandwidth, as its vendor states it, None where unknown."""

    usd_per_s: float | None = None
    bound_usd: float | None = None
    bandwidth_bytes_per_s: float | None = None


@dataclass(frozen=True)
class OtherTarget:
    """A target that a campaign confirms on, as it stands.

    `ran` are the tests that were confirmed there: arms and lever of the first test, outcome and seconds of
    the other. `pace` is, for each, how many times as long the first took. `built` are trials whose artifacts
    are there: what ran at the same provider. `wait_s` is by earlier runs where `is_wait_known`, else a guess.
    On a device of this machine all that was built here is there (`is_here`). `held` says in a sentence why
    nothing is sent there now: no budget lets it go, or the target is out until the campaign is resumed.
    """

    device: str
    terms: Terms = Terms()
    ran: tuple[Trial, ...] = ()
    pace: tuple[float, ...] = ()
    built: tuple[Trial, ...] = ()
    wait_s: float = 0.0
    is_wait_known: bool = True
    held: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether it is a device of this machine."""
        return not is_rented(self.device)


def keep_terms(session: Session, campaign_id: int, found: Mapping[str, Terms]) -> None:
    """Store what was found of the targets, with what else was found on the campaign's ground."""
    terms_of = {target: asdict(terms) for target, terms in found.items()}
    keep_found(session.get_one(Campaign, campaign_id), TERMS, terms_of)


def read_targets(
    session: Session,
    campaign_id: int,
    devices: Sequence[str],
    ground: Mapping[str, Any],
    trials: Sequence[Trial],
) -> tuple[OtherTarget, ...]:
    """The targets that the campaign confirms on; a few statements for each."""
    known = {each.experiment_id: each for each in trials}
    told: Mapping[str, Any] = ground.get(TERMS) or {}
    out = why_out(session, campaign_id) if devices else {}
    ran = {device: _ran(session, campaign_id, device, known) for device in devices}
    found = []
    for device in devices:
        terms = Terms(**told.get(device, {}))
        here = [known[first].cost_s / each.cost_s for first, each in ran[device] if each.cost_s > 0]
        place = device.partition(":")[0]
        wait_s, is_wait_known = _wait_s(session, device) if is_rented(device) else (0.0, True)
        found.append(
            OtherTarget(
                device,
                _priced(session, campaign_id, device, terms),
                ran=tuple(each for _, each in ran[device]),
                pace=tuple(each for each in here if each > 0),
                built=tuple(
                    each for other in devices if other.partition(":")[0] == place for _, each in ran[other]
                ),
                wait_s=wait_s,
                is_wait_known=is_wait_known,
            )
        )
    return tuple(
        replace(each, held=out.get(each.device) or _held(session, campaign_id, each)) for each in found
    )


def confirmed_before(session: Session, campaign_id: int) -> frozenset[tuple[int, str]]:
    """Which tests stand in the queue for which target, stood there, or were confirmed there by hand."""
    queued = session.execute(
        select(Hypothesis.confirms_experiment_id, Hypothesis.target).where(
            Hypothesis.campaign_id == campaign_id, Hypothesis.target != ""
        )
    )
    by_hand = session.execute(
        select(Experiment.reproduces_experiment_id, Job.device_class)
        .join(Job, Job.experiment_id == Experiment.id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(
            Experiment.campaign_id == campaign_id,
            Experiment.kind == ExperimentKind.PROMOTE,
            Verdict.id.is_not(None),
        )
    )
    return frozenset((int(first), str(target)) for first, target in (*queued, *by_hand) if first is not None)


def _ran(
    session: Session, campaign_id: int, device: str, known: Mapping[int, Trial]
) -> list[tuple[int, Trial]]:
    """The tests that were confirmed on a device, oldest first, each with the first test's experiment."""
    query = (
        select(Experiment, Verdict, JUDGED_S)
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .join(Job, Job.experiment_id == Experiment.id)
        .where(
            Experiment.campaign_id == campaign_id,
            Experiment.kind == ExperimentKind.PROMOTE,
            Job.device_class == device,
        )
        .order_by(Experiment.id)
    )
    return [
        (
            first.experiment_id,
            replace(
                first,
                experiment_id=fresh.id,
                outcome=Outcome(verdict.outcome.value),
                effect_log=verdict.effect_log,
                cost_s=took_s or 0.0,
                failure_kind=fresh.failure_kind,
            ),
        )
        for fresh, verdict, took_s in session.execute(query)
        if (first := known.get(fresh.reproduces_experiment_id or 0)) is not None
    ]


def _priced(session: Session, campaign_id: int, device: str, terms: Terms) -> Terms:
    """The terms by the newest quote of a job there, where there is one."""
    query = (
        select(JobQuote)
        .join(Job, Job.id == JobQuote.job_id)
        .where(Job.campaign_id == campaign_id, JobQuote.target == device, JobQuote.bound_s > 0)
        .order_by(JobQuote.job_id.desc())
        .limit(1)
    )
    quote = session.scalars(query).first()
    if quote is None:
        return terms
    bound_usd = money.usd(quote.bound_microusd)
    return replace(terms, bound_usd=bound_usd, usd_per_s=bound_usd / quote.bound_s)


def _wait_s(session: Session, device: str) -> tuple[float, bool]:
    """Seconds from a submit to what is paid for, and whether earlier runs on the target tell them."""
    query = (
        select(RemoteRun.submitted_at, RemoteRun.ended_at, RemoteRun.actual_s)
        .where(
            RemoteRun.target == device,
            RemoteRun.state == RemoteRunState.ENDED,
            RemoteRun.actual_s > 0,
        )
        .order_by(RemoteRun.id.desc())
        .limit(NEWEST)
    )
    waits = [
        max(0.0, (ended_at - submitted_at).total_seconds() - paid_s)
        for submitted_at, ended_at, paid_s in session.execute(query)
        if submitted_at is not None and ended_at is not None and paid_s is not None
    ]
    if len(waits) >= FEWEST_WAITS:
        return median(waits), True
    ever = session.scalar(select(func.count()).select_from(RemoteRun).where(RemoteRun.target == device))
    return START_S if ever else FIRST_START_S, False


def _held(session: Session, campaign_id: int, target: OtherTarget) -> str | None:
    """Why no budget lets another test go there, in a sentence; asking the user is not counted."""
    if target.is_here:
        return None
    bound = money.microusd(target.terms.bound_usd or 0.0)
    standings = money.covering(session, campaign_id, target.device)
    return money.refusal(standings, target.device, bound, bound)[0]

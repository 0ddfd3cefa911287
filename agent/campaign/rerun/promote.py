"""What one target found, confirmed on another: the same two arms under the same plan, judged anew there.

The test is an experiment of the same campaign, sealed for its own target, with that target's noise profile
and, where quality is judged, a reference that is scored there. Its verdict becomes a finding of its own scope
(`knowledge.findings.keeping`); what it says of the first is told by `knowledge.findings.ties`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.known import store
from agent.campaign.known.facts import Facts
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.verdicts import unsealed
from agent.campaign.queue.dispatch import enqueue_test
from agent.campaign.rerun.confirm import is_broken
from agent.campaign.rerun.elsewhere import Elsewhere, facts_there, find_elsewhere
from agent.campaign.rerun.reproduce import PUT_BACK
from agent.campaign.resources.devices import device_of
from configs.errors import UsageError
from configs.quantities import format_duration, format_usd
from db import events, money
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Experiment, Job, JobQuote, Verdict
from db.states import ExperimentKind, ExperimentState, JobState, VerdictOutcome
from experiments.job.spec import TestJob
from experiments.measurement.plan import StoppingPlan
from experiments.recording import load_test_spec
from experiments.remote.quoting import Price
from experiments.sealing import altered
from experiments.space.configuration import Configuration
from knowledge.stored import number

NOT_QUOTED = "not quoted yet"
"""The basis of a price before a worker of the target has asked for it."""


@dataclass(frozen=True)
class Asked:
    """A test to confirm elsewhere, looked at and not yet queued: the experiment, the target, the campaign as
    it stands there, and its arms and plan.

    `price` is by the time that the first test took: none in dollars. `unfinished` is an earlier one on the
    same target that nothing was concluded of, which is gone on with. `spec` is a job such as it will be, to
    be quoted by an executor.
    """

    experiment_id: int
    there: Elsewhere
    facts: Facts
    arms: Mapping[str, Configuration]
    plan: StoppingPlan
    price: Price
    spec: TestJob
    unfinished: int | None

    @property
    def label(self) -> str:
        """`E-0002`."""
        return format_label(Noun.EXPERIMENT, self.experiment_id)


@dataclass(frozen=True)
class Promoted:
    """The ids of the experiment and the job that were written for another target."""

    experiment_id: int
    job_id: int

    @property
    def label(self) -> str:
        """The experiment's, `E-0003`."""
        return format_label(Noun.EXPERIMENT, self.experiment_id)

    @property
    def job(self) -> str:
        """The job's, `J-7`."""
        return format_label(Noun.JOB, self.job_id)


def promotable(session: Session, noun: Noun, given: int) -> int:
    """The experiment that a label means: a judged test itself, or the newest of a hypothesis.

    Raises `UsageError` for what is no test or was not decided.
    """
    label = format_label(noun, given)
    query = select(Experiment, Verdict).join(Verdict, Verdict.experiment_id == Experiment.id)
    if noun is Noun.HYPOTHESIS:
        query = query.where(Experiment.hypothesis_id == given, Experiment.kind == ExperimentKind.TEST)
    else:
        query = query.where(Experiment.id == given)
    row = session.execute(query.order_by(Experiment.id.desc()).limit(1)).first()
    if row is None:
        raise UsageError(
            f"{label} has no verdict that could be confirmed.", "Name a judged test: autoinfer experiments"
        )
    experiment, verdict = row
    if experiment.kind is not ExperimentKind.TEST:
        first = experiment.reproduces_experiment_id
        hint = (
            "Name a judged test: autoinfer experiments"
            if first is None
            else f"Name the test itself: {format_label(Noun.EXPERIMENT, first)}"
        )
        raise UsageError(f"{label} is no test of a hypothesis: it is {experiment.kind.value}.", hint)
    if verdict.outcome not in (VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED):
        raise UsageError(
            f"{format_label(Noun.EXPERIMENT, experiment.id)} is {verdict.outcome.value}: there is nothing "
            "that another target could confirm.",
            "Confirm what is supported or refuted: autoinfer hypotheses",
        )
    return int(experiment.id)


def ask(session: Session, experiment_id: int, target: str) -> Asked:
    """Look at a test on another target, and at whether it can run there; writes nothing.

    Raises `UsageError` for a test with a broken seal, and for a target that is none, that is the test's own,
    or that can't serve an arm.
    """
    original = session.get_one(Experiment, experiment_id)
    broken = altered(session, original)
    if broken is not None:
        raise UsageError(f"{broken} Another target can't confirm it.", PUT_BACK)
    there = find_elsewhere(target)
    label = format_label(Noun.EXPERIMENT, experiment_id)
    if there.device == device_of(session, experiment_id) or there.device == original.target:
        raise UsageError(
            f"{label} was measured on {there.device} itself.",
            f"Run it again with: autoinfer reproduce {label}",
        )
    facts = read_facts(session, original.campaign_id)
    assert original.candidate_configuration_id is not None
    known = store.configurations(
        session, [original.control_configuration_id, original.candidate_configuration_id]
    )
    arms = {
        "control": known[original.control_configuration_id],
        "candidate": known[original.candidate_configuration_id],
    }
    facts = facts_there(facts, there, arms)
    spec = load_test_spec(session, experiment_id)
    return Asked(
        experiment_id=experiment_id,
        there=there,
        facts=facts,
        arms=arms,
        plan=StoppingPlan.model_validate(original.plan),
        price=_by_time(session, original),
        spec=spec.model_copy(update={"device": there.device, "at_once": facts.at_once, "target": there.key}),
        unfinished=unfinished(session, experiment_id, there.device),
    )


def _by_time(session: Session, original: Experiment) -> Price:
    """What the first test took, and what all of its plan would have taken by its judge."""
    verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == original.id)).one()
    told = verdict.judge.get("details")
    details = told if isinstance(told, dict) else {}
    took_s = original.wall_s or 0.0
    spent_s, planned_s = number(details.get("spent_s")), number(details.get("planned_s"))
    more_s = 0.0 if spent_s is None or planned_s is None else max(0.0, planned_s - spent_s)
    label = format_label(Noun.EXPERIMENT, original.id)
    return Price(took_s, took_s + more_s, 0, 0, f"as long as {label} took on {original.target}; no limit")


def unfinished(session: Session, experiment_id: int, device: str) -> int | None:
    """The newest test of the experiment on this device of which nothing was concluded yet; None for none."""
    query = (
        select(Experiment)
        .join(Job, Job.experiment_id == Experiment.id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(
            Experiment.kind == ExperimentKind.PROMOTE,
            Experiment.reproduces_experiment_id == experiment_id,
            Experiment.state.in_((ExperimentState.PLANNED, ExperimentState.RUNNING, ExperimentState.DONE)),
            Job.device_class == device,
            Job.state.in_((JobState.QUEUED, JobState.RUNNING, JobState.DONE)),
            Job.cancel_requested.is_(False),
            Verdict.id.is_(None),
        )
        .order_by(Experiment.id.desc())
    )
    for each in session.scalars(query):
        if not is_broken(each) and unsealed(session, each) is None:
            return each.id
    return None


def promote(
    session: Session,
    asked: Asked,
    price: Price | None,
    *,
    agreed: bool,
    hypothesis_id: int | None = None,
    by_queue: str = "",
) -> Promoted:
    """Write the experiment and its job for the other target.

    `hypothesis_id` is what it is a test of, the first test's own if not given. `by_queue`: the campaign's
    queue sends it, for the price that this tells; then it is agreed to as every job of a campaign, by its
    budgets and the price above which they ask.

    `price` is the executor's quote of a rented target, None where nobody has asked for it yet. `agreed`: the
    user agreed to it; without that the job of a rented target waits until its price is approved.
    """
    fresh_id = enqueue_test(
        session,
        asked.facts,
        asked.arms["control"],
        asked.arms["candidate"],
        asked.plan,
        kind=ExperimentKind.PROMOTE,
        hypothesis_id=hypothesis_id or session.get_one(Experiment, asked.experiment_id).hypothesis_id,
        reproduces_experiment_id=asked.experiment_id,
        device=asked.there.device,
    )
    job_id = session.scalars(select(Job.id).where(Job.experiment_id == fresh_id)).one()
    quoted = price or replace(asked.price, basis=NOT_QUOTED)
    if asked.there.rented and not by_queue:
        session.add(_quote(job_id, asked.there.device, quoted, agreed=agreed and price is not None))
    label, job = format_label(Noun.EXPERIMENT, fresh_id), format_label(Noun.JOB, job_id)
    waits = asked.there.rented and not agreed
    events.append(
        session,
        EventKind.EXPERIMENT_PROMOTED,
        f"{label} is to confirm {asked.label} on {asked.there.device}: "
        + (by_queue or quote_words(asked, price))
        + (f"; it waits for your approval: autoinfer approve {job}" if waits else ""),
        subject=asked.label,
        campaign_id=asked.facts.id,
        data={
            "experiment": label,
            "job": job,
            "target": asked.there.device,
            "expected_s": quoted.expected_s,
            "bound_s": quoted.bound_s,
            "expected_usd": quoted.expected_usd,
            "bound_usd": quoted.bound_usd,
            "agreed": agreed,
        },
    )
    return Promoted(fresh_id, job_id)


def _quote(job_id: int, target: str, price: Price, *, agreed: bool) -> JobQuote:
    return JobQuote(
        job_id=job_id,
        target=target,
        expected_s=price.expected_s,
        bound_s=price.bound_s,
        expected_microusd=price.expected,
        bound_microusd=price.bound,
        basis=price.basis,
        waits_because=None if agreed else "It waits until you have agreed to its price.",
        needs_approval=not agreed,
        approved_microusd=price.bound if agreed else money.NOTHING_YET,
    )


def quote_words(asked: Asked, price: Price | None) -> str:
    """The quote in words: time, and dollars of a rented target."""
    if not asked.there.rented:
        found = asked.price
        most = (
            ""
            if found.bound_s <= found.expected_s
            else f", {format_duration(found.bound_s)} by its whole plan"
        )
        return f"about {format_duration(found.expected_s)}{most} ({found.basis}), no dollars"
    if price is None:
        return f"its price is {NOT_QUOTED}"
    return (
        f"{format_usd(price.bound_usd)} at most, expected {format_usd(price.expected_usd)} and "
        f"{format_duration(price.expected_s)} ({price.basis})"
    )

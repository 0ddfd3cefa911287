"""An experiment once more in fresh processes, under the same sealed plan, and whether the two agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign import store
from agent.campaign.devices import device_of
from agent.campaign.dispatch import enqueue_test
from agent.campaign.ended import until_ended
from agent.campaign.learn import NOT_THE_CANDIDATES_FAULT, judge_experiment, settle, unsealed
from agent.campaign.reading_facts import read_facts
from configs.errors import AutoinferError, UsageError
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Experiment, Job, Verdict
from db.session import Database
from db.states import ExperimentKind, ExperimentState, JobState, VerdictOutcome
from experiments.measurement.plan import StoppingPlan
from knowledge.figures import effect
from knowledge.findings.keeping import update_findings
from knowledge.stored import verdict_metric


@dataclass(frozen=True)
class Reproduction:
    """What a fresh run said. `agrees`: the same outcome, and intervals that overlap where both have one."""

    original: str
    fresh: str
    agrees: bool
    original_outcome: VerdictOutcome
    fresh_outcome: VerdictOutcome
    reason: str


def reproduce(
    database: Database,
    experiment_id: int,
    wait: Callable[[], None],
    stop: Callable[[], None] = lambda: None,
) -> Reproduction:
    """Enqueue the experiment again, wait until a worker has run it, judge it, and compare.

    `wait` is called between looks; it sleeps, and keeps a worker alive if there is one to keep. A
    reproduction that an earlier process left unfinished is gone on with. What interrupts the waiting ends the
    reproduction: `stop` is called, which ends that worker, and the job is cancelled. Raises `UsageError` for
    an experiment without a verdict of its own, `AutoinferError` when the fresh run broke.
    """
    with database.write() as session:
        fresh_id = unfinished_reproduction(session, experiment_id)
        if fresh_id is None:
            fresh_id = enqueue_reproduction(session, experiment_id)
    until_ended(database, fresh_id, wait, stop, "Whoever waited for the reproduction went away.")
    with database.write() as session:
        return conclude(session, fresh_id)


def unfinished_reproduction(session: Session, experiment_id: int) -> int | None:
    """The newest reproduction of the experiment of which nothing was concluded yet; None for none.

    One that was cancelled, broke, or is no longer what was sealed, will never be concluded.
    """
    query = (
        select(Experiment)
        .join(Job, Job.experiment_id == Experiment.id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(
            Experiment.reproduces_experiment_id == experiment_id,
            Experiment.kind == ExperimentKind.REPRODUCE,
            Experiment.state.in_((ExperimentState.PLANNED, ExperimentState.RUNNING, ExperimentState.DONE)),
            Job.state.in_((JobState.QUEUED, JobState.RUNNING, JobState.DONE)),
            Job.cancel_requested.is_(False),
            Verdict.id.is_(None),
        )
        .order_by(Experiment.id.desc())
    )
    for each in session.scalars(query):
        if each.failure_kind not in NOT_THE_CANDIDATES_FAULT and unsealed(session, each) is None:
            return each.id
    return None


def enqueue_reproduction(session: Session, experiment_id: int) -> int:
    """Write the fresh experiment and its job, on the device of the original; returns its id."""
    label = format_label(Noun.EXPERIMENT, experiment_id)
    original = session.get(Experiment, experiment_id)
    if original is None:
        raise UsageError(f"{label} does not exist.", "See which do with: autoinfer experiments")
    verdict = _verdict(session, experiment_id)
    if verdict is None or original.candidate_configuration_id is None:
        raise UsageError(
            f"{label} has no verdict that could be confirmed.", "Name a judged test: autoinfer experiments"
        )
    if original.kind is ExperimentKind.PROMOTE:
        assert original.reproduces_experiment_id is not None
        first, there = _original_label(original), device_of(session, experiment_id)
        raise UsageError(
            f"{label} confirmed {first} on another target and is not reproduced by itself.",
            f"Confirm that once more with: autoinfer promote {first} --target {there}",
        )
    known = store.configurations(
        session, [original.control_configuration_id, original.candidate_configuration_id]
    )
    return enqueue_test(
        session,
        read_facts(session, original.campaign_id),
        known[original.control_configuration_id],
        known[original.candidate_configuration_id],
        StoppingPlan.model_validate(original.plan),
        kind=ExperimentKind.REPRODUCE,
        hypothesis_id=original.hypothesis_id,
        reproduces_experiment_id=original.id,
        device=device_of(session, experiment_id),
    )


def conclude(session: Session, fresh_id: int) -> Reproduction:
    """Judge the fresh run, let the findings know, and compare it with the original."""
    fresh = session.get_one(Experiment, fresh_id)
    assert fresh.reproduces_experiment_id is not None
    label = format_label(Noun.EXPERIMENT, fresh_id)
    if fresh.state == ExperimentState.CANCELLED:
        raise AutoinferError(f"{label} was cancelled.", "Start it again with: autoinfer reproduce")
    original = _verdict(session, fresh.reproduces_experiment_id)
    assert original is not None
    again = _verdict(session, fresh_id)
    if again is None:
        settle(session, fresh)
        broken = unsealed(session, fresh)
        if broken is None and fresh.failure_kind in NOT_THE_CANDIDATES_FAULT:
            broken = f"{label} broke, which says nothing about the claim: {fresh.failure}"
        if broken is not None:
            raise AutoinferError(broken, f"Start it again with: autoinfer reproduce {_original_label(fresh)}")
        verdict_id, _ = judge_experiment(session, fresh)
        update_findings(session, verdict_id)
        again = session.get_one(Verdict, verdict_id)
        told = _compare(original, again, format_label(Noun.EXPERIMENT, original.experiment_id), label)
        events.append(
            session,
            EventKind.EXPERIMENT_REPRODUCED,
            told.reason,
            subject=label,
            campaign_id=fresh.campaign_id,
            data={"agrees": told.agrees, "original": told.original},
        )
        return told
    return _compare(original, again, format_label(Noun.EXPERIMENT, original.experiment_id), label)


def _original_label(fresh: Experiment) -> str:
    assert fresh.reproduces_experiment_id is not None
    return format_label(Noun.EXPERIMENT, fresh.reproduces_experiment_id)


def _compare(original: Verdict, again: Verdict, first: str, second: str) -> Reproduction:
    then, now = _interval(original), _interval(again)
    overlap = then is None or now is None or (now[0] <= then[1] and then[0] <= now[1])
    agrees = original.outcome == again.outcome and overlap
    if agrees:
        words = f"{second} agrees with {first}: both {again.outcome.value}"
    elif original.outcome == again.outcome:
        words = f"{second} and {first} are both {again.outcome.value}, but their intervals do not overlap"
    else:
        words = f"{second} says {again.outcome.value} where {first} said {original.outcome.value}"
    return Reproduction(
        original=first,
        fresh=second,
        agrees=agrees,
        original_outcome=original.outcome,
        fresh_outcome=again.outcome,
        reason=f"{words} ({_told(original)} then, {_told(again)} now)",
    )


def _told(verdict: Verdict) -> str:
    if verdict.effect_log is None:
        return "not measured"
    low, high = verdict.interval_low_log, verdict.interval_high_log
    return effect(verdict.effect_log, low, high, verdict_metric(verdict))


def _interval(verdict: Verdict) -> tuple[float, float] | None:
    if verdict.interval_low_log is None or verdict.interval_high_log is None:
        return None
    return verdict.interval_low_log, verdict.interval_high_log


def _verdict(session: Session, experiment_id: int) -> Verdict | None:
    return session.scalars(select(Verdict).where(Verdict.experiment_id == experiment_id)).first()

"""What another target said, judged and compared with the first: one transaction, once for each test."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from agent.campaign.learning.verdicts import NOT_THE_CANDIDATES_FAULT, judge_experiment, settle, unsealed
from agent.campaign.rerun.elsewhere import ran_elsewhere
from agent.campaign.rerun.ended import until_ended
from agent.plan.card import card_of_rented
from configs.errors import AutoinferError
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Experiment, FindingEvidence, Job, NoiseLaunch, Verdict
from db.session import Database
from db.states import (
    FINAL_JOB_STATES,
    EvidenceRelation,
    ExperimentKind,
    ExperimentState,
    JobState,
    VerdictOutcome,
)
from experiments.job.seal import TAMPERED
from experiments.recording import load_launches, load_test_spec
from knowledge.findings.keeping import update_findings
from knowledge.findings.ties import tie_between
from knowledge.machines import machine
from knowledge.queries.found.ties import side_of

_LOG = logging.getLogger(__name__)

OTHER_TARGET = "other_target"
"""Failure kind of an experiment that ran on another target than it was asked for."""


@dataclass(frozen=True)
class Confirmation:
    """What the other target said: `relation` to the first, None where it leaves it open."""

    original: str
    fresh: str
    target: str
    original_outcome: VerdictOutcome
    fresh_outcome: VerdictOutcome
    relation: EvidenceRelation | None
    reason: str
    findings: tuple[str, ...] = ()


def conclude(session: Session, fresh_id: int) -> Confirmation | str:
    """Judge what the other target measured, let the findings know, and say what it says of the first; the
    cause in a sentence where it can't be judged.

    Told once, however often and by whomever this is called. Raises `AutoinferError` for one that was
    cancelled.
    """
    fresh = session.get_one(Experiment, fresh_id, with_for_update=True)
    label = format_label(Noun.EXPERIMENT, fresh_id)
    assert fresh.reproduces_experiment_id is not None
    if fresh.state is ExperimentState.CANCELLED:
        raise AutoinferError(f"{label} was cancelled.", "Ask for it again with: autoinfer promote")
    original = session.get_one(Experiment, fresh.reproduces_experiment_id)
    again = session.scalars(select(Verdict).where(Verdict.experiment_id == fresh_id)).first()
    if again is not None:
        return _compared(session, original, fresh, again)
    settle(session, fresh)
    broken = _why_not_judged(session, fresh)
    if broken is not None:
        return broken
    verdict_id, _ = judge_experiment(session, fresh)
    update_findings(session, verdict_id)
    told = _compared(session, original, fresh, session.get_one(Verdict, verdict_id))
    events.append(
        session,
        EventKind.EXPERIMENT_COMPARED,
        told.reason,
        subject=label,
        campaign_id=fresh.campaign_id,
        data={
            "original": told.original,
            "target": fresh.target,
            "relation": None if told.relation is None else told.relation.value,
            "findings": list(told.findings),
        },
    )
    return told


def ended(session: Session) -> list[int]:
    """Tests on other targets that have ended and were not concluded yet, oldest first."""
    query = (
        select(Experiment)
        .join(Job, Job.experiment_id == Experiment.id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(
            Experiment.kind == ExperimentKind.PROMOTE,
            Experiment.state != ExperimentState.CANCELLED,
            Job.state.in_(FINAL_JOB_STATES),
            Job.state != JobState.CANCELLED,
            Verdict.id.is_(None),
        )
        .order_by(Experiment.id)
    )
    return [
        each.id for each in session.scalars(query) if not is_broken(each) and not _is_check(session, each)
    ]


def _is_check(session: Session, experiment: Experiment) -> bool:
    """Whether it is the check of a recipe, which whoever asked for it concludes."""
    return load_test_spec(session, experiment.id).within_s is not None


def is_broken(experiment: Experiment) -> bool:
    """Whether it failed in a way that says nothing of the claim."""
    return experiment.failure_kind in (*NOT_THE_CANDIDATES_FAULT, OTHER_TARGET)


def _why_not_judged(session: Session, fresh: Experiment) -> str | None:
    """Why a test says nothing of the claim, in a sentence; kept with it where it was found out here."""
    label = format_label(Noun.EXPERIMENT, fresh.id)
    if is_broken(fresh):
        return f"{label} broke, which says nothing about the claim: {fresh.failure}"
    broken, kind = unsealed(session, fresh), TAMPERED
    if broken is None:
        kind, other = OTHER_TARGET, other_target(session, fresh)
        if other is None:
            return None
        asked, ran = machine(fresh.target), machine(other)
        broken = f"{label} was asked for on {asked} and ran on {ran}, so it is not compared."
        # what was taken for the noise of the target is another's
        session.execute(delete(NoiseLaunch).where(NoiseLaunch.experiment_id == fresh.id))
    fresh.state, fresh.failure_kind, fresh.failure = ExperimentState.FAILED, kind, broken
    events.append(session, EventKind.EXPERIMENT_FAILED, broken, subject=label, campaign_id=fresh.campaign_id)
    return broken


def other_target(session: Session, fresh: Experiment) -> str | None:
    """On what any of its launches ran that was not asked for; None where all ran on what was."""
    card = card_of_rented(fresh.target)
    for launch in load_launches(session, fresh.id):
        machine = launch.environment.get("machine")
        found = ran_elsewhere(fresh.target, machine, card) if isinstance(machine, dict) else None
        if found is not None:
            return found
    return None


def _compared(session: Session, original: Experiment, fresh: Experiment, again: Verdict) -> Confirmation:
    first = session.scalars(select(Verdict).where(Verdict.experiment_id == original.id)).one()
    before, after = side_of(original, first), side_of(fresh, again)
    tie = tie_between(before, after)
    of_verdict = select(FindingEvidence.finding_id).where(FindingEvidence.verdict_id == again.id)
    return Confirmation(
        original=before.experiment,
        fresh=after.experiment,
        target=fresh.target,
        original_outcome=before.outcome,
        fresh_outcome=after.outcome,
        relation=tie.relation,
        reason=tie.reason,
        findings=tuple(format_label(Noun.FINDING, each) for each in session.scalars(of_verdict)),
    )


def conclude_ended(database: Database) -> None:
    """Conclude every test on another target that has ended, each in a transaction of its own: called by
    workers, since nobody may be waiting."""
    try:
        with database.read() as session:
            waiting = ended(session)
        for experiment_id in waiting:
            with database.write() as session:
                conclude(session, experiment_id)
    except AutoinferError as error:
        _LOG.warning("%s", error)  # the next job that ends is another occasion


def wait_for(
    database: Database, fresh_id: int, wait: Callable[[], None], stop: Callable[[], None] = lambda: None
) -> Confirmation:
    """Wait until a worker has run the test on the other target, judge it, and compare.

    `wait` is called between looks. What interrupts the waiting ends the test: `stop` is called, which ends
    the worker that was started for it, and the job is cancelled. Raises `AutoinferError` when it broke.
    """
    until_ended(database, fresh_id, wait, stop, "Whoever waited for the confirmation went away.")
    with database.write() as session:
        told = conclude(session, fresh_id)
    if isinstance(told, str):
        raise AutoinferError(told, "Ask for it again with: autoinfer promote")
    return told

"""An experiment once more in fresh processes, under the same sealed plan, and whether the two agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from agent.campaign.known import store
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.verdicts import judge_experiment, settle, unsealed
from agent.campaign.queue.dispatch import enqueue_test
from agent.campaign.rerun.confirm import OTHER_TARGET, is_broken, other_target
from agent.campaign.rerun.elsewhere import facts_there, find_elsewhere
from agent.campaign.rerun.ended import until_ended
from agent.campaign.resources.allowance import more_dollars
from agent.campaign.resources.devices import device_of
from agent.campaign.resources.fresh_price import check_affordable
from agent.ground.target import find_target
from configs.errors import AutoinferError, UsageError
from configs.targets import is_rented
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Job, NoiseLaunch, Verdict
from db.session import Database
from db.states import ExperimentKind, ExperimentState, JobState, VerdictOutcome
from experiments.measurement.plan import StoppingPlan
from experiments.recording import load_test_spec
from experiments.sealing import altered
from knowledge.figures import effect
from knowledge.findings.keeping import update_findings
from knowledge.machines import machine
from knowledge.queries.found.fresh_runs import is_said_again, judgement, moved_words
from knowledge.replication import Agreement, compare


@dataclass(frozen=True)
class Reproduction:
    """What a fresh run said: `agreement` by the rule of `knowledge.replication`, `reason` in a sentence."""

    original: str
    fresh: str
    agrees: bool
    agreement: Agreement
    original_outcome: VerdictOutcome
    fresh_outcome: VerdictOutcome
    reason: str


def reproduce(
    database: Database,
    experiment_id: int,
    wait: Callable[[], None],
    stop: Callable[[], None] = lambda: None,
    *,
    device: str | None = None,
    after: int = 0,
) -> Reproduction | str:
    """Enqueue the experiment again, wait until a worker has run it, judge it, and compare; the cause in a
    sentence where the fresh run broke, which says nothing about the claim.

    `wait` is called between looks; it sleeps, and keeps a worker alive if there is one to keep. A
    reproduction that an earlier process left unfinished is gone on with, if it is newer than the experiment
    `after`. What interrupts the waiting ends the reproduction: `stop` is called, which ends that worker, and
    the job is cancelled. It runs on `device`, that of the original if none is given. Raises as
    `enqueue_reproduction`, and `AutoinferError` when the fresh run was cancelled.
    """
    with database.write() as session:
        fresh_id = unfinished_reproduction(session, experiment_id, after)
        if fresh_id is None:
            fresh_id = enqueue_reproduction(session, experiment_id, device)
    until_ended(database, fresh_id, wait, stop, "Whoever waited for the reproduction went away.")
    with database.write() as session:
        return conclude(session, fresh_id)


def unfinished_reproduction(session: Session, experiment_id: int, after: int = 0) -> int | None:
    """The newest reproduction of the experiment of which nothing was concluded yet, among those newer than
    the experiment `after`; None for none.

    One that was cancelled, broke, or is no longer what was sealed, will never be concluded.
    """
    query = (
        select(Experiment)
        .join(Job, Job.experiment_id == Experiment.id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(
            Experiment.reproduces_experiment_id == experiment_id,
            Experiment.kind == ExperimentKind.REPRODUCE,
            Experiment.id > after,
            Experiment.state.in_((ExperimentState.PLANNED, ExperimentState.RUNNING, ExperimentState.DONE)),
            Job.state.in_((JobState.QUEUED, JobState.RUNNING, JobState.DONE)),
            Job.cancel_requested.is_(False),
            Verdict.id.is_(None),
        )
        .order_by(Experiment.id.desc())
    )
    original = session.get(Experiment, experiment_id)
    for each in session.scalars(query):
        if original is None or not is_said_again(original, each):  # the check of a recipe
            continue
        if not is_broken(each) and unsealed(session, each) is None:
            return each.id
    return None


def other_hardware(device: str, target: str) -> str | None:
    """Why a device of this machine can't run again what was measured on `target`, as measurements are kept by
    it, in a sentence or clause; None where it is that."""
    try:
        here = find_target(device).key
    except AutoinferError as error:
        return error.message
    return (
        None
        if here == target
        else f"it was measured on {machine(target)}, and {device} here is {machine(here)}"
    )


def allow_reproduction(session: Session, experiment_id: int, device: str, more_usd: float = 0.0) -> None:
    """Give the campaign's budget `more_usd` for a fresh run on a rented `device`, and see that there is room,
    unless one is under way that is gone on with.

    Raises `UsageError` where there is none, for an experiment without a verdict of its own or with a broken
    seal, and for dollars where nothing is rented.
    """
    original = _reproducible(session, experiment_id)
    if more_usd:
        more_dollars(session, original.campaign_id, more_usd, None)
    if unfinished_reproduction(session, experiment_id) is not None:
        return  # it may be what the budget was spent on
    command = f"autoinfer reproduce {format_label(Noun.EXPERIMENT, experiment_id)}"
    check_affordable(session, original.campaign_id, [(experiment_id, device)], command)


def _reproducible(session: Session, experiment_id: int) -> Experiment:
    """The experiment, where it has a verdict of its own that a fresh run may be held against, and is still
    what was sealed."""
    label = format_label(Noun.EXPERIMENT, experiment_id)
    original = session.get(Experiment, experiment_id)
    if original is None:
        raise UsageError(f"{label} does not exist.", "See which do with: autoinfer experiments")
    verdict = _verdict(session, experiment_id)
    if verdict is None or original.candidate_configuration_id is None:
        raise UsageError(
            f"{label} has no verdict that could be confirmed.", "Name a judged test: autoinfer experiments"
        )
    broken = no_longer_sealed(session, original)
    if broken is not None:
        raise UsageError(*broken)
    return original


def no_longer_sealed(session: Session, experiment: Experiment) -> tuple[str, str] | None:
    """Why no fresh run can confirm a test of which something was altered since it was sealed, and what can be
    done about it, a sentence each; None where nothing was."""
    broken = altered(session, experiment)
    return None if broken is None else (f"{broken} Running it again can't mend that.", PUT_BACK)


PUT_BACK = "Put back what was changed, as a copy of the database from before has it."


def enqueue_reproduction(session: Session, experiment_id: int, device: str | None = None) -> int:
    """Write the fresh experiment and its job, on `device` or that of the original; returns its id.

    What was measured on another target than the campaign's is sealed for that one again. Raises `UsageError`
    for an experiment without a verdict of its own or with a broken seal, and for a target that is not to be
    had.
    """
    original = _reproducible(session, experiment_id)
    device = device or device_of(session, experiment_id)
    assert original.candidate_configuration_id is not None
    known = store.configurations(
        session, [original.control_configuration_id, original.candidate_configuration_id]
    )
    control = known[original.control_configuration_id]
    candidate = known[original.candidate_configuration_id]
    facts = read_facts(session, original.campaign_id)
    if original.kind is ExperimentKind.PROMOTE:
        assert device is not None  # it had a job
        there = find_elsewhere(device)
        if there.key != original.target:
            raise UsageError(
                f"{format_label(Noun.EXPERIMENT, experiment_id)} was measured on "
                f"{machine(original.target)}, and {there.device} here is {machine(there.key)}.",
                "Ask where that hardware is, with the same database.",
            )
        facts = facts_there(facts, there, {"control": control, "candidate": candidate})
    else:  # as the original was sealed, side by side or in turn
        facts = replace(facts, at_once=load_test_spec(session, experiment_id).at_once)
    return enqueue_test(
        session,
        facts,
        control,
        candidate,
        StoppingPlan.model_validate(original.plan),
        kind=ExperimentKind.REPRODUCE,
        hypothesis_id=original.hypothesis_id,
        reproduces_experiment_id=original.id,
        device=device,
    )


def conclude(session: Session, fresh_id: int) -> Reproduction | str:
    """Judge the fresh run, let the findings know, and compare it with the original; the cause in a sentence
    where it broke. Raises `AutoinferError` for one that was cancelled."""
    fresh = session.get_one(Experiment, fresh_id)
    assert fresh.reproduces_experiment_id is not None
    label = format_label(Noun.EXPERIMENT, fresh_id)
    if fresh.state == ExperimentState.CANCELLED:
        raise AutoinferError(f"{label} was cancelled.", "Start it again with: autoinfer reproduce")
    original = _verdict(session, fresh.reproduces_experiment_id)
    assert original is not None
    again = _verdict(session, fresh_id)
    if again is not None:
        return _compared(session, original, again)
    settle(session, fresh)
    broken = _why_not_judged(session, fresh)
    if broken is not None:
        return broken
    verdict_id, _ = judge_experiment(session, fresh)
    update_findings(session, verdict_id)
    told = _compared(session, original, session.get_one(Verdict, verdict_id))
    events.append(
        session,
        EventKind.EXPERIMENT_REPRODUCED,
        told.reason,
        subject=label,
        campaign_id=fresh.campaign_id,
        data={"agrees": told.agrees, "agreement": told.agreement.value, "original": told.original},
    )
    return told


def _why_not_judged(session: Session, fresh: Experiment) -> str | None:
    """Why a fresh run says nothing of the claim, in a sentence; kept with it where it was found out here."""
    label = format_label(Noun.EXPERIMENT, fresh.id)
    if is_broken(fresh):
        return f"{label} broke, which says nothing about the claim: {fresh.failure}"
    broken = unsealed(session, fresh)
    if broken is not None:
        return broken
    campaign = session.get_one(Campaign, fresh.campaign_id)
    elsewhere = load_test_spec(session, fresh.id).target is not None
    # a campaign's own rented target is kept by what was asked for, which its executor looks at itself
    rented = is_rented(str(campaign.spec.get("target", "")))
    other = None if rented and not elsewhere else other_target(session, fresh)
    if other is None:
        return None
    asked, ran = machine(fresh.target), machine(other)
    broken = f"{label} was asked for on {asked} and ran on {ran}, so it is not compared."
    # what was taken for the noise of the target is another's
    session.execute(delete(NoiseLaunch).where(NoiseLaunch.experiment_id == fresh.id))
    fresh.state, fresh.failure_kind, fresh.failure = ExperimentState.FAILED, OTHER_TARGET, broken
    events.append(session, EventKind.EXPERIMENT_FAILED, broken, subject=label, campaign_id=fresh.campaign_id)
    return broken


def _compared(session: Session, original: Verdict, again: Verdict) -> Reproduction:
    then, now = judgement(original), judgement(again)
    first, second = (format_label(Noun.EXPERIMENT, each.experiment_id) for each in (original, again))
    found = compare(then, now)
    verb = {
        Agreement.AGREES: "agrees with",
        Agreement.DIFFERS: "differs from",
        Agreement.OPEN: "leaves open what was said by",
    }[found.agreement]
    difference = found.difference
    apart = (
        ""
        if difference is None
        else "; the difference is "
        + effect(difference.effect_log, difference.low_log, difference.high_log, now.metric)
    )
    ran = [session.get_one(Experiment, each.experiment_id) for each in (original, again)]
    moved = moved_words(session, [(ran[0], ran[1])]).get(again.experiment_id)
    return Reproduction(
        original=first,
        fresh=second,
        agrees=found.agreement is Agreement.AGREES,
        agreement=found.agreement,
        original_outcome=original.outcome,
        fresh_outcome=again.outcome,
        reason=f"{second} {verb} {first}: {found.why} ({then.words} then, {now.words} now{apart})"
        + (f"; {moved}" if moved else ""),
    )


def _verdict(session: Session, experiment_id: int) -> Verdict | None:
    return session.scalars(select(Verdict).where(Verdict.experiment_id == experiment_id)).first()

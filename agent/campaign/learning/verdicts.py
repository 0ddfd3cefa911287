"""The verdict of an experiment, from its stored rows: whether it may be judged, and what it came to."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.known.reading_facts import STEP_LENGTH
from agent.judge.drafting import drafting_report
from agent.judge.gates import clock_tolerance, confounders
from configs.quantities import format_duration
from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Experiment, Job, Verdict
from db.states import ExperimentState, VerdictOutcome
from experiments.disk import DISK_FULL
from experiments.engines.port import DEVICE_FAULTS
from experiments.job.blame import BLAMES, blames_of
from experiments.job.failed_arm import CONTROL_FAILED
from experiments.job.named import load_judge
from experiments.job.result import BROKE
from experiments.job.seal import TAMPERED, other_judge
from experiments.measurement.judging import BY_CLOCK, JudgeVerdict, Outcome
from experiments.recording import load_evidence, load_test_spec
from experiments.sealing import tampered
from knowledge.queries.spent.saved_time import LAUNCH_TIME
from knowledge.stored import number

NOT_THE_CANDIDATES_FAULT = (CONTROL_FAILED, "spec", BROKE, DISK_FULL, "lost", TAMPERED, *DEVICE_FAULTS)
"""Failures that say nothing about the hypothesis: the control did not run, the job itself broke or is not
the one that was preregistered, or the device was not to be had."""

LEAST_SAVED_S = 1.0
"""Seconds from which stopping early is told: below, it is rounding."""

CONFOUNDERS = "confounders"
"""Where a verdict's `judge` keeps what ran differently beyond the claimed change: key, control, candidate."""


def settle(session: Session, experiment: Experiment) -> None:
    """Give an experiment whose job used up its attempts, so that no worker could end it, its failure."""
    if experiment.state == ExperimentState.DONE or experiment.failure is not None:
        return
    error = session.scalar(
        select(Job.error).where(Job.experiment_id == experiment.id).order_by(Job.id.desc()).limit(1)
    )
    experiment.failure_kind = "crashed"
    experiment.finished_at = now()
    fail(session, experiment, error or "every worker that took it was lost")


def fail(session: Session, experiment: Experiment, failure: str) -> None:
    """Mark an experiment as failed, and say so where nobody has yet."""
    if experiment.state == ExperimentState.FAILED:
        return
    experiment.state, experiment.failure = ExperimentState.FAILED, failure
    events.append(
        session,
        EventKind.EXPERIMENT_FAILED,
        f"{format_label(Noun.EXPERIMENT, experiment.id)} failed: {failure}",
        subject=format_label(Noun.EXPERIMENT, experiment.id),
        campaign_id=experiment.campaign_id,
    )


def unsealed(session: Session, experiment: Experiment) -> str | None:
    """Why an experiment may not be judged: it was changed after it was sealed, or for another judge than the
    one that is here; one sentence, None when it may."""
    broken = tampered(session, experiment)
    if broken is not None:
        return broken
    spec = load_test_spec(session, experiment.id)
    other = other_judge(spec, load_judge(spec.judge))
    return None if other is None else f"{format_label(Noun.EXPERIMENT, experiment.id)}: {other}."


def judge_experiment(session: Session, experiment: Experiment) -> tuple[int, JudgeVerdict]:
    """Judge an experiment from its rows, write the verdict and its event; returns the verdict's id too.

    It is judged as it was sealed: by the plan and the judge of its job. Whoever calls this has asked
    `unsealed`.
    """
    judge = load_judge(load_test_spec(session, experiment.id).judge)
    plan, evidence = load_evidence(session, experiment.id)
    verdict = judge.verdict(plan, evidence)
    drafting = drafting_report(evidence)  # the judge's own: one definition of the acceptance length
    confounded = verdict.outcome is Outcome.CONFOUNDED
    differing = confounders(evidence, plan.metric, clock_tolerance(plan)) if confounded else ()
    row = Verdict(
        experiment_id=experiment.id,
        hypothesis_id=experiment.hypothesis_id,
        outcome=VerdictOutcome(verdict.outcome.value),
        effect_log=verdict.effect_log,
        interval_low_log=verdict.interval_low_log,
        interval_high_log=verdict.interval_high_log,
        launches=verdict.launches,
        samples=verdict.samples,
        quality=dict(verdict.quality),
        reason=verdict.reason,
        judge={
            "name": judge.name,
            "version": judge.version,
            "details": dict(verdict.details),
            # acceptance that was set, as made-up weights need it, teaches nothing of drafting
            STEP_LENGTH: None if drafting is None or plan.latency_only else drafting.acceptance,
            CONFOUNDERS: [asdict(each) for each in differing],
            **({BLAMES: blames} if (blames := blames_of(experiment.progress or {})) else {}),
        },
        preregistration_digest=experiment.preregistration_digest,
    )
    session.add(row)
    session.flush()
    tested = experiment.hypothesis_id
    about = [] if tested is None else [format_label(Noun.HYPOTHESIS, tested)]
    events.append(
        session,
        EventKind.EXPERIMENT_JUDGED,
        f"{' '.join([*about, verdict.outcome.value])}: {verdict.reason}",
        subject=format_label(Noun.EXPERIMENT, experiment.id),
        campaign_id=experiment.campaign_id,
        data={"outcome": verdict.outcome.value, "effect_log": verdict.effect_log},
    )
    _tell_saved(session, experiment, verdict)
    return row.id, verdict


def _tell_saved(session: Session, experiment: Experiment, verdict: JudgeVerdict) -> None:
    """Tell what stopping early saved, where the judge reckons both what was spent and what was planned."""
    spent_s, planned_s = (number(verdict.details.get(name)) for name in ("spent_s", "planned_s"))
    if spent_s is None or planned_s is None or planned_s - spent_s < LEAST_SAVED_S:
        return
    label = format_label(Noun.EXPERIMENT, experiment.id)
    saved_s, by_clock = planned_s - spent_s, verdict.details.get(BY_CLOCK) is True
    measuring = "measuring by the clock" if by_clock else LAUNCH_TIME
    events.append(
        session,
        EventKind.EXPERIMENT_STOPPED_EARLY,
        f"{label} was clear after {format_duration(spent_s)} of {measuring}, of an estimated "
        f"{format_duration(planned_s)} for its whole plan: {format_duration(saved_s)} saved",
        subject=label,
        campaign_id=experiment.campaign_id,
        data={"spent_s": spent_s, "planned_s": planned_s, "saved_s": saved_s, BY_CLOCK: by_clock},
    )

"""From a finished job to a verdict, a finding and a changed hypothesis: one transaction each."""

from __future__ import annotations

import math
from dataclasses import asdict

from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import Session, aliased

from agent.campaign import store
from agent.campaign.measured import Baseline, naive_failed, read_baseline
from agent.campaign.reading_facts import STEP_LENGTH
from agent.campaign.stored_spec import AT_ONCE, FOUND, START
from agent.judge.drafting import drafting_report
from agent.judge.gates import clock_tolerance, confounders
from configs.quantities import format_duration
from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Hypothesis, Job, Verdict
from db.states import (
    FINAL_JOB_STATES,
    ExperimentKind,
    ExperimentState,
    HypothesisState,
    VerdictOutcome,
)
from experiments.engines.port import DEVICE_FAULTS
from experiments.job.comparison import CONTROL_FAILED
from experiments.job.named import load_judge
from experiments.job.seal import TAMPERED, other_judge
from experiments.kill_points import KillPoint, reached
from experiments.measurement.evidence import Stage
from experiments.measurement.judging import JudgeVerdict, Outcome
from experiments.recording import load_evidence, load_stages, load_test_spec
from experiments.sealing import tampered
from experiments.space.configuration import Configuration
from knowledge.findings.keeping import update_findings
from knowledge.latency_only import LATENCY_ONLY, latency_only
from knowledge.rank_transfer import update_rank_transfer
from knowledge.stored import number, separates_of

NOT_THE_CANDIDATES_FAULT = (CONTROL_FAILED, "spec", "error", "lost", TAMPERED, *DEVICE_FAULTS)
"""Failures that say nothing about the hypothesis: the control did not run, the job itself broke or is not
the one that was preregistered, or the device was not to be had."""

LEAST_SAVED_S = 1.0
"""Seconds of launch time from which stopping early is told: below, it is rounding."""

CONFOUNDERS = "confounders"
"""Where a verdict's `judge` keeps what ran differently beyond the claimed change: key, control, candidate."""


def unlearnt(session: Session, campaign_id: int) -> list[int]:
    """Experiments whose job has ended and of which nothing was concluded yet, oldest first.

    A baseline counts while the campaign has none, a test while its hypothesis is under test; an experiment
    that was cancelled and dispatched anew is replaced by the newer one.
    """
    other = aliased(Experiment)
    newest = (
        select(func.max(other.id))
        .where(other.hypothesis_id == Experiment.hypothesis_id, other.kind == ExperimentKind.TEST)
        .correlate(Experiment)
        .scalar_subquery()
    )
    is_open = or_(
        and_(
            Experiment.kind == ExperimentKind.BASELINE,
            Experiment.state == ExperimentState.DONE,
            Campaign.baseline_configuration_id.is_(None),
        ),
        and_(
            Experiment.kind == ExperimentKind.TEST,
            Hypothesis.state == HypothesisState.TESTING,
            Experiment.id == newest,
        ),
    )
    query = (
        select(Experiment.id)
        .join(Campaign, Campaign.id == Experiment.campaign_id)
        .join(Job, Job.experiment_id == Experiment.id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .where(Experiment.campaign_id == campaign_id, Job.state.in_(FINAL_JOB_STATES), is_open)
        .order_by(Experiment.id)
    )
    return list(session.scalars(query))


def learn_baseline(session: Session, experiment_id: int) -> None:
    """Make the chosen configuration the campaign's baseline, or mark the experiment failed."""
    experiment = session.get_one(Experiment, experiment_id)
    campaign = session.get_one(Campaign, experiment.campaign_id)
    chosen = next(
        (
            stage.detail["chosen"]
            for stage in load_stages(session, experiment_id)
            if stage.stage is Stage.SWEEP and isinstance(stage.detail.get("chosen"), dict)
        ),
        None,
    )
    if experiment.failure is not None or chosen is None:
        _fail(session, experiment, experiment.failure or "the sweep chose nothing")
        return
    baseline = Configuration.of(chosen)  # type: ignore[arg-type]
    campaign.naive_configuration_id = experiment.control_configuration_id
    campaign.baseline_configuration_id = store.configuration_id(session, baseline)
    experiment.control_configuration_id = campaign.baseline_configuration_id
    measured = read_baseline(session, experiment_id)
    in_turn = campaign.spec[FOUND].get(AT_ONCE) == 1
    naive = store.configurations(session, [campaign.naive_configuration_id])
    naive_digest = naive[campaign.naive_configuration_id].digest
    begun_elsewhere = START in campaign.spec[FOUND]
    subject = format_label(Noun.EXPERIMENT, experiment_id)
    quality = "" if measured.bits_per_byte is None else f", {measured.bits_per_byte:.4f} bits per byte"
    if latency_only(campaign.spec):
        quality = f"; {LATENCY_ONLY}, and quality is not known"
    why = naive_failed(session, experiment_id)
    events.append(
        session,
        EventKind.CAMPAIGN_BASELINE,
        f"Trial 0 is {measured.tpot_ms[baseline.digest]:.2f} ms a token ({baseline}){quality}; "
        + (
            f"the engine's own default was not measured: {why}"
            if begun_elsewhere
            else _against_naive(measured, baseline.digest, naive_digest, why, in_turn=in_turn)
        ),
        subject=subject,
        campaign_id=campaign.id,
        data={
            "baseline": {
                "configuration": dict(baseline),
                "tpot_ms": measured.tpot_ms[baseline.digest],
                "sweep_tpot_ms": measured.sweep_tpot_ms.get(baseline.digest),
                "ttft_ms": measured.ttft_ms[baseline.digest],
                "bits_per_byte": measured.bits_per_byte,
            },
            "naive": {
                "configuration": dict(naive[campaign.naive_configuration_id]),
                "tpot_ms": measured.tpot_ms.get(naive_digest),
                "sweep_tpot_ms": measured.sweep_tpot_ms.get(naive_digest),
                "failed": why,
            },
        },
    )
    if measured.profile:
        total = math.fsum(part.time_ms for part in measured.profile)
        by_kind: dict[str, float] = {}
        for part in measured.profile:
            by_kind[part.kind] = by_kind.get(part.kind, 0.0) + part.time_ms
        shown = sorted(by_kind.items(), key=lambda each: -each[1])
        events.append(
            session,
            EventKind.CAMPAIGN_PROFILED,
            f"A decode step of {total:.2f} ms: "
            + ", ".join(f"{kind} {time_ms / total:.0%}" for kind, time_ms in shown),
            subject=subject,
            campaign_id=campaign.id,
            data={"by_kind_ms": by_kind},
        )


def _against_naive(measured: Baseline, baseline: str, naive: str, why: str | None, *, in_turn: bool) -> str:
    """How the naive default compares, by digest: by the sweep alone, which timed both side by side, or, where
    launches are in turn, one after the other. `why` says what kept it from that."""
    if naive == baseline:
        return "that is the naive default itself"
    before, after = measured.sweep_tpot_ms.get(naive), measured.sweep_tpot_ms.get(baseline)
    if before is None or after is None:
        told = "the naive default did not last through the sweep"
        return told if why is None else f"{told}: {why.rstrip('.')}"
    how = "one after the other" if in_turn else "side by side"
    return (
        f"{how} in the sweep the naive default took {before / after:.2f}× as long "
        f"({before:.2f} against {after:.2f} ms)"
    )


def learn_test(session: Session, experiment_id: int) -> Outcome | None:
    """Judge a test from its stored samples; None when it was cancelled, or its device was not to be had, and
    its hypothesis waits again."""
    experiment = session.get_one(Experiment, experiment_id)
    hypothesis = session.get_one(Hypothesis, experiment.hypothesis_id)
    if experiment.state == ExperimentState.CANCELLED or experiment.failure_kind in DEVICE_FAULTS:
        hypothesis.state = HypothesisState.QUEUED
        hypothesis.state_changed_at = now()
        tell_requeued(session, experiment, "")
        return None
    settle(session, experiment)
    if experiment.failure_kind not in NOT_THE_CANDIDATES_FAULT:
        _check_seal(session, experiment)
    if experiment.failure_kind in NOT_THE_CANDIDATES_FAULT:
        return _leave_open(session, experiment, hypothesis)
    verdict_id, verdict = judge_experiment(session, experiment)
    reached(KillPoint.BETWEEN_VERDICT_AND_STATE)
    hypothesis.state = HypothesisState(verdict.outcome.value)
    hypothesis.state_reason = verdict.reason
    hypothesis.state_changed_at = now()
    update_findings(session, verdict_id)
    update_rank_transfer(session, verdict_id)
    return verdict.outcome


def _check_seal(session: Session, experiment: Experiment) -> None:
    """Fail an experiment that is no longer what was preregistered, so that no verdict comes of it."""
    broken = unsealed(session, experiment)
    if broken is None:
        return
    experiment.state = ExperimentState.FAILED
    experiment.failure_kind = TAMPERED
    experiment.failure = broken
    events.append(
        session,
        EventKind.EXPERIMENT_FAILED,
        f"{broken} It is not judged.",
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


def _leave_open(session: Session, experiment: Experiment, hypothesis: Hypothesis) -> Outcome:
    """End a hypothesis as inconclusive because its experiment broke, and say so.

    Where a question of the campaign, or what separates the causes of a confounded test, has a control of its
    own and that did not run, it can't be answered here: it is infeasible, with the control's cause.
    """
    campaign = session.get_one(Campaign, experiment.campaign_id)
    own_control = hypothesis.control_configuration_id != campaign.baseline_configuration_id
    asked = hypothesis.question is not None or separates_of(hypothesis.change) is not None
    if asked and own_control and experiment.failure_kind == CONTROL_FAILED:
        outcome, reason = Outcome.INFEASIBLE, str(experiment.failure)
    else:
        outcome = Outcome.INCONCLUSIVE
        reason = f"the experiment broke, which says nothing about the claim: {experiment.failure}"
    session.add(
        Verdict(
            experiment_id=experiment.id,
            hypothesis_id=hypothesis.id,
            outcome=VerdictOutcome(outcome.value),
            launches=0,
            samples=0,
            reason=reason,
            judge={"name": "campaign loop", "version": "1"},
            preregistration_digest=experiment.preregistration_digest,
        )
    )
    hypothesis.state = HypothesisState(outcome.value)
    hypothesis.state_reason = reason
    hypothesis.state_changed_at = now()
    events.append(
        session,
        EventKind.EXPERIMENT_JUDGED,
        f"{format_label(Noun.HYPOTHESIS, hypothesis.id)} {outcome.value}: {reason}",
        subject=format_label(Noun.EXPERIMENT, experiment.id),
        campaign_id=experiment.campaign_id,
        data={"outcome": outcome.value, "effect_log": None},
    )
    return outcome


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
    saved_s = planned_s - spent_s
    events.append(
        session,
        EventKind.EXPERIMENT_STOPPED_EARLY,
        f"{label} was clear after {format_duration(spent_s)} of an estimated {format_duration(planned_s)} of "
        f"launch time: {format_duration(saved_s)} saved",
        subject=label,
        campaign_id=experiment.campaign_id,
        data={"spent_s": spent_s, "planned_s": planned_s, "saved_s": saved_s},
    )


def settle(session: Session, experiment: Experiment) -> None:
    """Give an experiment whose job used up its attempts, so that no worker could end it, its failure."""
    if experiment.state == ExperimentState.DONE or experiment.failure is not None:
        return
    error = session.scalar(
        select(Job.error).where(Job.experiment_id == experiment.id).order_by(Job.id.desc()).limit(1)
    )
    experiment.failure_kind = "crashed"
    experiment.finished_at = now()
    _fail(session, experiment, error or "every worker that took it was lost")


def tell_requeued(session: Session, experiment: Experiment, where: str) -> None:
    """Tell that the hypothesis of a test waits again, `where` if that is not the campaign's own target."""
    why = (experiment.failure or "its test was cancelled").rstrip(".")
    label = format_label(Noun.HYPOTHESIS, experiment.hypothesis_id or 0)
    events.append(
        session,
        EventKind.HYPOTHESIS_REQUEUED,
        f"{label} waits{f' for {where}' if where else ''} again: {why}",
        subject=label,
        campaign_id=experiment.campaign_id,
        data={"experiment": format_label(Noun.EXPERIMENT, experiment.id)},
    )


def _fail(session: Session, experiment: Experiment, failure: str) -> None:
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

"""From a finished test to a verdict, a finding and a changed hypothesis: one transaction each."""

from __future__ import annotations

from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import Session, aliased

from agent.campaign.learning.verdicts import NOT_THE_CANDIDATES_FAULT, judge_experiment, settle, unsealed
from agent.campaign.resources.device_faults import WAITS_AGAIN
from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Hypothesis, Job, Verdict
from db.states import FINAL_JOB_STATES, ExperimentKind, ExperimentState, HypothesisState, VerdictOutcome
from experiments.job.failed_arm import CONTROL_FAILED
from experiments.job.seal import TAMPERED
from experiments.kill_points import KillPoint, reached
from experiments.measurement.judging import Outcome
from experiments.worker.cancelling import ENDS_WITH_WHAT_IT_HAS
from knowledge.findings.keeping import update_findings
from knowledge.rank_transfer import update_rank_transfer
from knowledge.stored import separates_of


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


def learn_test(session: Session, experiment_id: int) -> Outcome | None:
    """Judge a test from its stored samples; None when it was cancelled, or its device was not to be had, and
    its hypothesis waits again."""
    experiment = session.get_one(Experiment, experiment_id)
    hypothesis = session.get_one(Hypothesis, experiment.hypothesis_id)
    if experiment.state == ExperimentState.CANCELLED or experiment.failure_kind in WAITS_AGAIN:
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
    hypothesis.state_reason = f"{verdict.reason}{_cut_short(experiment)}"
    hypothesis.state_changed_at = now()
    update_findings(session, verdict_id)
    update_rank_transfer(session, verdict_id)
    return verdict.outcome


def _cut_short(experiment: Experiment) -> str:
    """What follows the reason of a verdict where its test was asked to end; empty where it was not."""
    why = str((experiment.progress or {}).get("stop_reason") or "")
    return f" {why}" if why.startswith(ENDS_WITH_WHAT_IT_HAS) else ""


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

"""The facts a summary is made of, gathered by a fixed number of statements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Experiment, Hypothesis, Verdict
from db.states import ExperimentState, HypothesisState
from knowledge.queries.baseline_in_tests import baseline_in_tests
from knowledge.queries.campaigns import campaign_detail
from knowledge.queries.claims.model_answers import asked_of_model
from knowledge.queries.claims.proposers import proposers
from knowledge.queries.devices import devices_of_tests
from knowledge.queries.found.fresh_runs import differing
from knowledge.queries.found.in_doubt import in_doubt
from knowledge.queries.left_alone import left_alone
from knowledge.queries.measured.gpu_throttling import gpu_throttling
from knowledge.queries.order.carried import carried_view
from knowledge.queries.order.night import question_now
from knowledge.queries.view import prediction_interval
from knowledge.stored import number, separates_of, was_foreseen
from knowledge.telling.facts import CampaignFacts, JudgedFact, WaitingFact

DROPPED = (HypothesisState.INFEASIBLE, HypothesisState.WITHDRAWN)
"""States of a hypothesis that stands for no other any more."""

MOST_NEXT = 3
"""Hypotheses named as coming next."""


def campaign_facts(session: Session, campaign_id: int) -> CampaignFacts:
    """Return all that is said of a campaign, which must exist."""
    campaign = campaign_detail(session, campaign_id)
    return CampaignFacts(
        campaign=campaign.id,
        name=campaign.name,
        model=campaign.model,
        target=campaign.target,
        state=campaign.state,
        interrupted=campaign.interrupted,
        stopped_because=campaign.stopped_because,
        started_at=campaign.started_at,
        spent_s=None if campaign.started_at is None else number(campaign.budget.get("spent_s")),
        budget_s=number(campaign.budget.get("wall_s")),
        experiments=campaign.spent.experiments,
        experiment_s=campaign.spent.experiment_s,
        unfinished=campaign.spent.unfinished,
        again=campaign.spent.again,
        again_s=campaign.spent.again_s,
        ahead=campaign.spent.ahead,
        untimed=campaign.spent.untimed,
        energy=campaign.spent.energy,
        hypotheses=campaign.hypotheses,
        testing=under_test(session, campaign_id),
        next=coming_next(session, campaign_id),
        judged=_judged(session, campaign_id),
        made_anew=_made_anew(session, campaign_id),
        approve_above_s=campaign.approve_above_s,
        awaiting=len(campaign.awaiting),
        at_rest=campaign.devices_at_rest,
        throttling=gpu_throttling(session, campaign_id),
        baseline_in_tests=baseline_in_tests(session, campaign_id),
        question=question_now(session, campaign_id),
        carried=carried_view(session, campaign_id),
        proposers=proposers(session, campaign_id),
        asked=asked_of_model(session, campaign_id),
        discovery=campaign.discovery,
        differs=differing(session, campaign_id),
        in_doubt=in_doubt(session, campaign_id),
    )


def under_test(session: Session, campaign_id: int) -> tuple[WaitingFact, ...]:
    """Return the hypotheses under test, with their stage."""
    query = (
        select(Hypothesis.id, Hypothesis.claim, Experiment.stage)
        .outerjoin(
            Experiment,
            (Experiment.hypothesis_id == Hypothesis.id) & (Experiment.state == ExperimentState.RUNNING),
        )
        .where(Hypothesis.campaign_id == campaign_id, Hypothesis.state == HypothesisState.TESTING)
        .order_by(Hypothesis.id)
    )
    rows = session.execute(query).all()
    numbers = [row.id for row in rows]
    devices = devices_of_tests(session, numbers) if rows else {}
    left = left_alone(session, numbers)
    return tuple(
        WaitingFact(
            format_label(Noun.HYPOTHESIS, number_),
            claim,
            stage,
            None,
            devices.get(number_),
            told is not None and told.interrupted is not None,
            None if told is None or told.ended is None else told.ended.clause,
        )
        for number_, claim, stage, told in ((*row, left.get(row.id)) for row in rows)
    )


def coming_next(session: Session, campaign_id: int) -> tuple[WaitingFact, ...]:
    """Return the first of the queue, with the reasons for their places."""
    query = (
        select(Hypothesis.id, Hypothesis.claim, Hypothesis.rank_reason)
        .where(Hypothesis.campaign_id == campaign_id, Hypothesis.state == HypothesisState.QUEUED)
        .order_by(Hypothesis.rank.nulls_last(), Hypothesis.id)
        .limit(MOST_NEXT)
    )
    return tuple(
        WaitingFact(format_label(Noun.HYPOTHESIS, number_), claim, None, reason)
        for number_, claim, reason in session.execute(query)
    )


def _judged(session: Session, campaign_id: int) -> tuple[JudgedFact, ...]:
    """Return the verdict on each hypothesis' own test; reproductions are not counted again."""
    query = (
        select(Hypothesis, Verdict)
        .join(Verdict, Verdict.hypothesis_id == Hypothesis.id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(Hypothesis.campaign_id == campaign_id, Experiment.reproduces_experiment_id.is_(None))
        .order_by(Verdict.id)
    )
    follow_ups = _follow_ups(session, campaign_id)
    return tuple(
        JudgedFact(
            id=format_label(Noun.HYPOTHESIS, hypothesis.id),
            experiment=format_label(Noun.EXPERIMENT, verdict.experiment_id),
            claim=hypothesis.claim,
            metric=hypothesis.metric,
            outcome=verdict.outcome,
            reason=verdict.reason,
            effect_log=verdict.effect_log,
            low_log=verdict.interval_low_log,
            high_log=verdict.interval_high_log,
            predicted_log=prediction_interval(hypothesis.prediction),
            follow_ups=follow_ups[format_label(Noun.EXPERIMENT, verdict.experiment_id)],
        )
        for hypothesis, verdict in session.execute(query)
    )


def _made_anew(session: Session, campaign_id: int) -> tuple[str, ...]:
    """The hypotheses in whose favour others are not tested now, the oldest first."""
    query = (
        select(Hypothesis.id, Hypothesis.change)
        .where(Hypothesis.campaign_id == campaign_id, Hypothesis.state.not_in(DROPPED))
        .order_by(Hypothesis.id)
    )
    return tuple(
        format_label(Noun.HYPOTHESIS, number_)
        for number_, change in session.execute(query)
        if was_foreseen(change)
    )


def _follow_ups(session: Session, campaign_id: int) -> Mapping[str, tuple[str, ...]]:
    """The hypotheses that separate the causes of confounded experiments, by the experiment's label."""
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    query = (
        select(Hypothesis.id, Hypothesis.change)
        .where(Hypothesis.campaign_id == campaign_id)
        .order_by(Hypothesis.id)
    )
    for number_, change in session.execute(query):
        experiment = separates_of(change)
        if experiment is not None and not was_foreseen(change):
            found[experiment] += (format_label(Noun.HYPOTHESIS, number_),)
    return found

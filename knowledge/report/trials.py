"""The path of a search: its tests in their order, what each said, and what moved the queue between them."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from db.event_kinds import EventKind
from db.events import of_kind
from db.labels import Noun, format_label
from db.models import Campaign, Configuration, Event, Experiment, Hypothesis, Move, Verdict
from db.models.base import JsonObject
from db.states import ExperimentKind, HypothesisState
from knowledge.latency_only import plan_is_latency_only
from knowledge.queries.found.fresh_runs import is_said_again
from knowledge.queries.measured.further import further_workloads
from knowledge.queries.pareto import judged_ratios
from knowledge.queries.pareto_ratios import Placed, each_over_baseline
from knowledge.queries.present.now_best import bests_told, margin_of
from knowledge.queries.view import EffectView, changes_between, effect_view, prediction_view, verdict_effect
from knowledge.report.view import AgainView, FurtherTestView, MoveCauseView, SearchView, TrialView
from knowledge.stored import metric_of
from knowledge.stored import number as number_of

MOST_CAUSES = 12
"""Events that moved the queue, told at most."""


def trials(session: Session, campaign: Campaign) -> tuple[TrialView, ...]:
    """The tests of a campaign that were begun, oldest first; six statements."""
    control, candidate = aliased(Configuration), aliased(Configuration)
    query = (
        select(Experiment, Hypothesis, Verdict, control.knobs, candidate.knobs)
        .join(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .join(control, control.id == Experiment.control_configuration_id)
        .outerjoin(candidate, candidate.id == Experiment.candidate_configuration_id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(
            Experiment.campaign_id == campaign.id,
            Experiment.kind == ExperimentKind.TEST,
            Experiment.started_at.is_not(None),
        )
        .order_by(Experiment.id)
    )
    placed, bests, why = _placed(session, campaign), _bests(session, campaign.id), _why(session, campaign.id)
    metric = metric_of(campaign.objective)
    found: list[TrialView] = []
    best = 1.0 if campaign.baseline_configuration_id is not None else None
    for number, (experiment, hypothesis, verdict, before, after) in enumerate(
        session.execute(query), start=1
    ):
        label = format_label(Noun.EXPERIMENT, experiment.id)
        best = bests.get(label, best)
        quality = {} if verdict is None else verdict.quality or {}
        found.append(
            TrialView(
                number=number,
                experiment=label,
                hypothesis=format_label(Noun.HYPOTHESIS, hypothesis.id),
                claim=hypothesis.claim,
                lever=hypothesis.lever,
                proposer=hypothesis.proposer,
                change=changes_between(before, after),
                min_effect=hypothesis.min_effect,
                state=experiment.state,
                outcome=None if verdict is None else verdict.outcome,
                latency_only=plan_is_latency_only(experiment.plan),
                reason=experiment.failure if verdict is None else verdict.reason,
                effect=None if verdict is None else verdict_effect(verdict),
                pairs=0 if verdict is None else verdict.launches // 2,
                samples=0 if verdict is None else verdict.samples,
                predicted=prediction_view(experiment.plan.get("prediction") or {}, hypothesis.metric),
                over_baseline=_over(placed.get(experiment.id), metric),
                bits_per_byte=margin_of(quality, "bits_per_byte_relative"),
                tasks=margin_of(quality, "task_points_lost"),
                is_new_best=label in bests,
                best_speedup=best,
                why_then=why.get(hypothesis.id),
                wall_s=experiment.wall_s,
                most_pairs=_most_pairs(experiment.plan),
            )
        )
    return tuple(found)


def again(session: Session, campaign_id: int) -> tuple[AgainView, ...]:
    """The reproductions, confirmations and checks of a campaign, oldest first; one statement."""
    original = aliased(Experiment)
    query = (
        select(Experiment, Verdict, original)
        .join(original, original.id == Experiment.reproduces_experiment_id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(Experiment.campaign_id == campaign_id, Experiment.reproduces_experiment_id.is_not(None))
        .order_by(Experiment.id)
    )
    return tuple(
        AgainView(
            experiment=format_label(Noun.EXPERIMENT, each.id),
            kind=each.kind,
            of=format_label(Noun.EXPERIMENT, each.reproduces_experiment_id or 0),
            target=each.target,
            state=each.state,
            outcome=None if verdict is None else verdict.outcome,
            effect=None if verdict is None else verdict_effect(verdict),
            is_check=not is_said_again(first, each),
            wall_s=each.wall_s,
        )
        for each, verdict, first in session.execute(query)
    )


def further(session: Session, campaign_id: int) -> tuple[FurtherTestView, ...]:
    """What the tests of a campaign measured beside their verdicts, what was run once more too, oldest first;
    three statements."""
    of = select(Experiment.id).where(Experiment.campaign_id == campaign_id).order_by(Experiment.id)
    found = further_workloads(session, tuple(session.scalars(of)))
    return tuple(
        FurtherTestView(experiment=format_label(Noun.EXPERIMENT, number), workloads=workloads)
        for number, workloads in sorted(found.items())
    )


def search(session: Session, campaign_id: int) -> SearchView:
    """Who proposed how many, and what moved the queue; four statements."""
    of_campaign = (Hypothesis.campaign_id == campaign_id, Hypothesis.target == "")
    proposed = session.execute(
        select(Hypothesis.proposer, func.count())
        .where(*of_campaign)
        .group_by(Hypothesis.proposer)
        .order_by(Hypothesis.proposer)
    ).all()
    withdrawn = session.scalar(
        select(func.count()).where(*of_campaign, Hypothesis.state == HypothesisState.WITHDRAWN)
    )
    grouped = (
        select(Move.event_id, func.count().label("moves"), func.min(Move.id).label("first"))
        .join(Hypothesis, Hypothesis.id == Move.hypothesis_id)
        .where(Hypothesis.campaign_id == campaign_id)
        .group_by(Move.event_id)
        .subquery()
    )
    causes = session.execute(
        select(Event.id, Event.kind, Event.subject, grouped.c.moves, Move.reason)
        .join(grouped, grouped.c.event_id == Event.id)
        .join(Move, Move.id == grouped.c.first)
        .order_by(grouped.c.moves.desc(), Event.id)
        .limit(MOST_CAUSES)
    ).all()
    return SearchView(
        proposed={name: count for name, count in proposed},  # noqa: C416 - rows, not pairs
        withdrawn=withdrawn or 0,
        moves=int(session.scalar(select(func.coalesce(func.sum(grouped.c.moves), 0))) or 0),
        causes=tuple(
            MoveCauseView(event_id=number, kind=kind, subject=subject, moves=moves, reason=reason)
            for number, kind, subject, moves, reason in causes
        ),
    )


def _placed(session: Session, campaign: Campaign) -> Mapping[int, Placed]:
    """What experiments say over the baseline, by id; nothing before there is one."""
    if campaign.baseline_configuration_id is None:
        return {}
    ratios = judged_ratios(session, campaign.id, metric_of(campaign.objective))
    return each_over_baseline(ratios, campaign.baseline_configuration_id)


def _most_pairs(plan: JsonObject) -> int | None:
    """The exploratory pairs of launches that a plan allows, which a short campaign's budget cuts."""
    pairs = number_of(plan.get("full_pairs"))
    return None if pairs is None else int(pairs)


def _over(placed: Placed | None, metric: str) -> EffectView | None:
    if placed is None:
        return None
    return effect_view(placed.log_ratio, placed.low_log, placed.high_log, metric)


def _bests(session: Session, campaign_id: int) -> Mapping[str, float]:
    """The speed-up of each experiment that made a best, as it was told."""
    told = session.scalars(
        select(Event).where(of_kind(EventKind.CAMPAIGN_BEST, campaign_id)).order_by(Event.id)
    )
    return {each.experiment: each.speedup for each in bests_told(list(told))}


def _why(session: Session, campaign_id: int) -> Mapping[int, str]:
    """The reason of the last place in the queue, by hypothesis."""
    last = (
        select(func.max(Move.id))
        .join(Hypothesis, Hypothesis.id == Move.hypothesis_id)
        .where(Hypothesis.campaign_id == campaign_id, Move.to_rank.is_not(None))
        .group_by(Move.hypothesis_id)
    )
    rows = session.execute(select(Move.hypothesis_id, Move.reason).where(Move.id.in_(last)))
    return {number: reason for number, reason in rows.all()}  # noqa: C416 - rows, not pairs

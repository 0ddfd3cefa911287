"""What other campaigns measured on the same target and engine, with which beliefs begin; reads only."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign import store
from agent.campaign.settling import settled
from agent.proposers.port import Trial
from agent.surrogate.carried import Carried
from configs.campaign import CampaignSpec
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Event, Experiment, Hypothesis, Verdict
from db.states import ExperimentKind, VerdictOutcome
from experiments.measurement.evidence import Metric
from experiments.measurement.judging import Outcome

MOST_CARRIED = 200
"""Outcomes of other campaigns that are looked at, the newest: learning from them is cubic in their number."""


def carried_trials(session: Session, campaign: Campaign, spec: CampaignSpec) -> tuple[Carried, ...]:
    """Trials on this campaign's objective from others with its target and engine, oldest first.

    With what each of these campaigns told of its trial 0; without that, those under another workload are left
    out: which shares the parts of a step had there is not known. The target is a kind of hardware with its
    memory, as campaigns name it; versions of the engine are not told apart. Tests on another target,
    reproductions and confounded tests are left out.
    """
    workload = spec.plan.workload
    asked, there = Campaign.spec["engine"].as_string(), Campaign.spec["plan"]["workload"]
    rows = session.execute(
        select(
            Campaign.id.label("campaign"),
            Campaign.model_fingerprint.label("model"),
            there["concurrency"].as_integer().label("concurrency"),
            there["prompt_tokens"].as_integer().label("prompt_tokens"),
            Hypothesis.id.label("hypothesis"),
            Hypothesis.control_configuration_id.label("control"),
            Hypothesis.candidate_configuration_id.label("candidate"),
            Hypothesis.lever,
            Experiment.id.label("experiment"),
            Experiment.failure_kind,
            Experiment.wall_s,
            Verdict.outcome,
            Verdict.effect_log,
            Verdict.judge["details"]["effect_se_log"].as_float().label("effect_se_log"),
        )
        .join_from(Verdict, Experiment, Experiment.id == Verdict.experiment_id)
        .join(Hypothesis, Hypothesis.id == Verdict.hypothesis_id)
        .join(Campaign, Campaign.id == Hypothesis.campaign_id)
        .where(
            Campaign.id != campaign.id,
            Campaign.target == campaign.target,
            asked == spec.engine,
            Experiment.kind == ExperimentKind.TEST,
            Experiment.reproduces_experiment_id.is_(None),
            Hypothesis.target == "",
            Hypothesis.metric == spec.plan.metric,
            Verdict.outcome != VerdictOutcome.CONFOUNDED,
        )
        .order_by(Verdict.id.desc())
        .limit(MOST_CARRIED)
    ).all()
    tpot_ms = _baselines(session, {row.campaign for row in rows})
    stored = store.configurations(session, [each for row in rows for each in (row.control, row.candidate)])
    known = {number: settled(each, spec.space) for number, each in stored.items()}
    found = (
        Carried(
            Trial(
                hypothesis_id=row.hypothesis,
                experiment_id=row.experiment,
                control=known[row.control],
                candidate=known[row.candidate],
                lever=row.lever,
                outcome=Outcome(row.outcome.value),
                effect_log=row.effect_log,
                effect_se_log=row.effect_se_log,
                bits_ratio_log=None,
                task_points=None,
                cost_s=row.wall_s or 0.0,
                failure_kind=row.failure_kind,
                metric=Metric(spec.plan.metric),
            ),
            format_label(Noun.CAMPAIGN, row.campaign),
            same_model=row.model == campaign.model_fingerprint,
            same_workload=(row.concurrency, row.prompt_tokens)
            == (workload.concurrency, workload.prompt_tokens),
            tpot_ms=tpot_ms.get(row.campaign),
        )
        for row in reversed(rows)
    )
    return tuple(each for each in found if each.same_workload or each.tpot_ms is not None)


def _baselines(session: Session, campaign_ids: set[int]) -> dict[int, float]:
    """What trial 0 takes in these campaigns, ms a token, where it was told."""
    told = session.execute(
        select(Event.campaign_id, Event.data["baseline"]["tpot_ms"].as_float())
        .where(Event.campaign_id.in_(campaign_ids), Event.kind == EventKind.CAMPAIGN_BASELINE)
        .order_by(Event.id)
    )
    return {campaign: tpot_ms for campaign, tpot_ms in told if campaign is not None and tpot_ms}

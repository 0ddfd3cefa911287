"""Verdicts read as the rules see them: those of this database, and those that were imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import func, select, union_all
from sqlalchemy.orm import Session, aliased

from db.labels import Noun, format_label
from db.models import (
    Campaign,
    Configuration,
    Environment,
    Experiment,
    FindingEvidence,
    Hypothesis,
    ImportedEvidence,
    ImportedVerdict,
    Launch,
    Verdict,
)
from db.states import Arm, VerdictOutcome
from experiments.engines.port import NOT_INSTALLED
from experiments.space.workload_rules import BATCH_TOKENS, RESOLVED_TOKENS
from knowledge.findings.exchange import ToldVerdict
from knowledge.findings.verdict_fact import VerdictFact
from knowledge.latency_only import plan_is_latency_only
from knowledge.scope import Scope
from knowledge.stored import (
    VERSIONS,
    configuration_of,
    engine_of,
    metric_of,
    min_effect_of,
    quality_held,
    versions_of,
    workload_of,
)

OPEN_OUTCOMES = frozenset({VerdictOutcome.INCONCLUSIVE, VerdictOutcome.CONFOUNDED})
"""Verdicts that decide nothing about the change."""

DRIVER = "nvidia driver"
"""How the driver stands among the versions of a scope: a GPU's times are of one driver."""


def pair_of(session: Session, verdict_id: int) -> tuple[int, int | None]:
    """Return the ids of the configurations that the verdict compares: control and candidate."""
    control, candidate = session.execute(
        select(Experiment.control_configuration_id, Experiment.candidate_configuration_id)
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .where(Verdict.id == verdict_id)
    ).one()
    return control, candidate


def facts_of_pair(session: Session, control_id: int, candidate_id: int | None) -> list[VerdictFact]:
    """Return all verdicts of this database on a pair of configurations, oldest first."""
    control, candidate = aliased(Configuration), aliased(Configuration)
    query = (
        select(Verdict, Experiment, Campaign, Hypothesis, control.knobs, candidate.knobs)
        .join(Experiment, Verdict.experiment_id == Experiment.id)
        .join(Campaign, Campaign.id == Experiment.campaign_id)
        .join(control, control.id == Experiment.control_configuration_id)
        .join(candidate, candidate.id == Experiment.candidate_configuration_id)
        .where(
            Experiment.control_configuration_id == control_id,
            Experiment.candidate_configuration_id == candidate_id,
        )
        .outerjoin(Hypothesis, Hypothesis.id == Verdict.hypothesis_id)
        .order_by(Verdict.id)
    )
    rows = session.execute(query).all()
    versions = versions_of_experiments(session, [row.Experiment for row in rows])
    steps = _step_tokens(session, rows)
    levers = [row.Hypothesis.lever for row in rows if row.Hypothesis is not None]
    judged = {
        row.Experiment.id: (row.Experiment.reproduces_experiment_id, row.Verdict.outcome) for row in rows
    }
    return [
        _fact(
            *row,
            lever=levers[0] if levers else "",
            versions=versions[row.Experiment.id],
            step_tokens=steps.get(row.Experiment.id),
            of_an_open_test=_reruns_an_open_test(row.Experiment.id, judged),
        )
        for row in rows
    ]


def imported_facts(session: Session, key: str) -> list[VerdictFact]:
    """Return the imported verdicts that bear on a statement."""
    query = select(ImportedVerdict).where(ImportedVerdict.key == key).order_by(ImportedVerdict.id)
    return [imported_fact(each) for each in session.scalars(query)]


def imported_fact(row: ImportedVerdict) -> VerdictFact:
    """Return an imported verdict as the rules see it; one that tells no time is as old as its arrival."""
    fact = ToldVerdict.model_validate(row.told).fact(row.id, row.origin)
    return fact if fact.measured_at is not None else replace(fact, measured_at=row.created_at)


def facts_of_finding(session: Session, finding_id: int) -> list[VerdictFact]:
    """Return the verdicts that a finding rests on."""
    local = set(
        session.scalars(select(FindingEvidence.verdict_id).where(FindingEvidence.finding_id == finding_id))
    )
    pairs = {pair_of(session, verdict_id) for verdict_id in local}
    found = [fact for pair in sorted(pairs) for fact in facts_of_pair(session, *pair)]
    query = (
        select(ImportedVerdict)
        .join(ImportedEvidence, ImportedEvidence.imported_verdict_id == ImportedVerdict.id)
        .where(ImportedEvidence.finding_id == finding_id)
        .order_by(ImportedVerdict.id)
    )
    imported = [imported_fact(row) for row in session.scalars(query)]
    return [fact for fact in found if fact.verdict_id in local] + imported


def versions_of_experiments(
    session: Session, experiments: Sequence[Experiment]
) -> dict[int, Mapping[str, object]]:
    """Return the versions each experiment ran with, by its id, the driver of its GPU among them.

    Those that are stored with it, else those its launches told. Where nothing was measured those of the last
    launch of its campaign, with what is stored of these packages in place of them: what an engine has here is
    told of most of its packages, and one scope needs all.
    """
    asked = [experiment.id for experiment in experiments]
    campaigns = {experiment.campaign_id for experiment in experiments}
    last_told = select(func.max(Launch.id)).where(Launch.experiment_id.in_(asked))
    last_of_campaign = (
        select(func.max(Launch.id))
        .join(Experiment, Experiment.id == Launch.experiment_id)
        .where(Experiment.campaign_id.in_(campaigns))
    )
    last = union_all(
        last_told.group_by(Launch.experiment_id), last_of_campaign.group_by(Experiment.campaign_id)
    )
    # of documents that tell much more, only what is asked for is read
    query = (
        select(
            Launch.experiment_id,
            Experiment.campaign_id,
            Launch.resolved[VERSIONS],
            Environment.data[("machine", "gpu", "driver")].as_string(),
        )
        .join(Experiment, Experiment.id == Launch.experiment_id)
        .join(Environment, Environment.digest == Launch.environment_digest)
        .where(Launch.id.in_(last))
        .order_by(Launch.id)
    )
    told: dict[int, Mapping[str, object]] = {}
    of_campaign: dict[int, Mapping[str, object]] = {}
    drivers: dict[int, Mapping[str, object]] = {}
    for experiment_id, campaign_id, versions, driver in session.execute(query):
        drivers[experiment_id] = {DRIVER: driver} if driver else {}
        told[experiment_id] = of_campaign[campaign_id] = {
            **versions_of({VERSIONS: versions}),
            **drivers[experiment_id],
        }
    return {
        each.id: {
            **_ran_with(each.versions or {}, told.get(each.id), of_campaign.get(each.campaign_id, {})),
            **drivers.get(each.id, {}),
        }
        for each in experiments
    }


def _step_tokens(session: Session, rows: Sequence[Any]) -> dict[int, int]:
    """How many tokens a step had in the controls of experiments, where these do not say it; by experiment."""
    asked = [row.Experiment.id for row in rows if BATCH_TOKENS not in row[-2]]
    if not asked:
        return {}
    told = func.max(Launch.resolved[RESOLVED_TOKENS].as_integer())
    query = select(Launch.experiment_id, told).where(
        Launch.experiment_id.in_(asked), Launch.arm == Arm.CONTROL
    )
    found = session.execute(query.group_by(Launch.experiment_id))
    return {experiment_id: tokens for experiment_id, tokens in found if tokens is not None}


def _ran_with(
    stored: Mapping[str, object], told: Mapping[str, object] | None, of_campaign: Mapping[str, object]
) -> Mapping[str, object]:
    """The versions of an experiment: `stored` with it, `told` by its launches (None: it had none), and those
    of its campaign's last launch."""
    if told is not None or not of_campaign:
        return stored or told or {}
    return {name: stored.get(name, version) for name, version in of_campaign.items()}


def _reruns_an_open_test(experiment_id: int, judged: Mapping[int, tuple[int | None, VerdictOutcome]]) -> bool:
    """Whether the experiment reruns a test, maybe by way of other reruns, that no verdict decided.

    `judged` are the experiments on the same pair of configurations, where an original is: what each reruns,
    and its outcome.
    """
    original, outcome = judged[experiment_id]
    if original is None:
        return False
    while original is not None:
        if original not in judged:
            return True
        original, outcome = judged[original]
    return outcome in OPEN_OUTCOMES


def _fact(
    verdict: Verdict,
    experiment: Experiment,
    campaign: Campaign,
    hypothesis: Hypothesis | None,
    control_knobs: dict[str, object],
    candidate_knobs: dict[str, object],
    *,
    lever: str,
    versions: Mapping[str, object],
    step_tokens: int | None,
    of_an_open_test: bool,
) -> VerdictFact:
    control = configuration_of(control_knobs)
    plan = experiment.plan
    margin = min_effect_of(plan)
    if margin is None:
        margin = hypothesis.min_effect if hypothesis is not None else 0.0
    return VerdictFact(
        verdict_id=verdict.id,
        outcome=verdict.outcome,
        metric=metric_of(plan),
        changes=control.changes_to(configuration_of(candidate_knobs)),
        lever=lever,
        min_effect=margin,
        scope=Scope.of(
            model=campaign.model,
            model_fingerprint=campaign.model_fingerprint,
            target=experiment.target,
            engine=engine_of(campaign.spec),
            versions=versions,
            workload=workload_of(plan),
            control=control,
            latency_only=plan_is_latency_only(plan),
            step_tokens=step_tokens,
        ),
        effect_log=verdict.effect_log,
        low_log=verdict.interval_low_log,
        high_log=verdict.interval_high_log,
        quality_held=quality_held(verdict.quality),
        cause=experiment.failure or verdict.reason,
        of_an_open_test=of_an_open_test,
        not_installed=experiment.failure_kind == NOT_INSTALLED,
        campaign=format_label(Noun.CAMPAIGN, campaign.id),
        measured_at=verdict.created_at,
    )

"""Reads what the loop knows of its campaign from the database."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Text, cast, select
from sqlalchemy.orm import Session

from agent.campaign.known import store
from agent.campaign.known.builds import read_built_ahead
from agent.campaign.known.carried import carried_trials
from agent.campaign.known.carried_best import read_carried_bests
from agent.campaign.known.facts import Facts, Queued
from agent.campaign.known.failed_in_sweep import failed_in_sweep
from agent.campaign.known.first_token import first_token_share_of
from agent.campaign.known.judged_time import JUDGED_S
from agent.campaign.known.other_targets import confirmed_before, read_targets
from agent.campaign.known.profiles import candidate_profiles
from agent.campaign.known.ran import resolved_by_experiment, resolved_of
from agent.campaign.known.ruled_out import read_ruled_out
from agent.campaign.known.settling import all_settled, stored_digests
from agent.campaign.known.stale_findings import read_stale_findings
from agent.campaign.known.stored_ground import stored_ground
from agent.campaign.known.worked_before import worked_before
from agent.campaign.resources.paid import usd_per_s
from agent.ground.stored_spec import AT_ONCE, FOUND, START
from agent.plan.stored_builds import measured_builds
from agent.proposers.dispute import PROPOSER as DISPUTE
from agent.proposers.port import Trial
from configs.errors import UsageError
from configs.garbage import uncollected
from configs.questions import is_latency
from configs.targets import is_rented
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Hypothesis, StageRun, Verdict
from db.models.base import JsonObject
from db.states import ExperimentKind, ExperimentState, HypothesisState, VerdictOutcome
from experiments.engines.port import Blames, PartTime
from experiments.job.blame import blames_of
from experiments.measurement.evidence import Metric, Stage
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from knowledge.acts.directives import WAITING
from knowledge.queries.claims.proposers import records
from knowledge.stored import (
    ANSWERED_BY,
    SEPARATES,
    STANDS_FOR,
    disputes_of,
    separates_of,
    stands_for_of,
    was_foreseen,
)

STEP_LENGTH = "acceptance_length"
"""Where a verdict's `judge` keeps the candidate's mean number of tokens a verification step."""


# What is read of every row, which of a long campaign is quicker than whole objects, structures above all, and
# than rows of the database, which look up each name.


class _Hypothesis(NamedTuple):
    id: int
    control_configuration_id: int
    candidate_configuration_id: int
    lever: str
    metric: str
    proposer: str
    question: str | None
    state: HypothesisState
    target: str
    stands_for: int | None
    answered_by: int | None


class _Experiment(NamedTuple):
    id: int
    kind: ExperimentKind
    state: ExperimentState
    hypothesis_id: int | None
    judged_s: float | None
    failure_kind: str | None


class _Verdict(NamedTuple):
    experiment_id: int
    outcome: VerdictOutcome
    effect_log: float | None
    quality: str | None
    judge: str


class _Told(NamedTuple):
    """What the loop goes by of a verdict's `quality` and `judge`."""

    bits_relative: float | None
    task_points_lost: float | None
    effect_se_log: float | None
    acceptance_length: float | None
    blames: Blames


@lru_cache(maxsize=16_384)
def _told(quality: str | None, judge: str) -> _Told:
    """From the text that is stored, which stays as it was written: after each event a campaign asks for most
    of them again. More are kept than a campaign of 5,000 experiments has; those of one on a GPU had 900 bytes
    each."""
    of_quality: Mapping[str, Any] = json.loads(quality or "null") or {}
    of_judge: Mapping[str, Any] = json.loads(judge)
    bits, tasks = of_quality.get("bits_per_byte_relative"), of_quality.get("task_points_lost")
    details: Mapping[str, Any] = of_judge.get("details") or {}
    return _Told(
        None if bits is None else bits["difference"],
        None if tasks is None else tasks["difference"],
        details.get("effect_se_log"),
        of_judge.get(STEP_LENGTH),
        blames_of(of_judge),
    )


_OF_HYPOTHESIS = (
    Hypothesis.id,
    Hypothesis.control_configuration_id,
    Hypothesis.candidate_configuration_id,
    Hypothesis.lever,
    Hypothesis.metric,
    Hypothesis.proposer,
    Hypothesis.question,
    Hypothesis.state,
    Hypothesis.target,
    Hypothesis.change[SEPARATES][STANDS_FOR].as_integer(),
    Hypothesis.change[ANSWERED_BY].as_integer(),
)
_OF_EXPERIMENT = (
    Experiment.id,
    Experiment.kind,
    Experiment.state,
    Experiment.hypothesis_id,
    JUDGED_S,
    Experiment.failure_kind,
)
_OF_VERDICT = (
    Verdict.experiment_id,
    Verdict.outcome,
    Verdict.effect_log,
    cast(Verdict.quality, Text),
    cast(Verdict.judge, Text),
)


@uncollected()
def read_facts(session: Session, campaign_id: int) -> Facts:
    """Everything the loop decides by; a handful of statements, whatever the size of the campaign.

    Raises `UsageError` when there is no such campaign.
    """
    campaign = session.get(Campaign, campaign_id)
    if campaign is None:
        label = format_label(Noun.CAMPAIGN, campaign_id)
        raise UsageError(f"{label} does not exist.", "See which do with: autoinfer campaign list")
    of_it = select(*_OF_HYPOTHESIS).where(Hypothesis.campaign_id == campaign_id).order_by(Hypothesis.id)
    hypotheses = [_Hypothesis._make(row) for row in session.execute(of_it)]
    waiting = session.scalars(
        select(Hypothesis)
        .where(Hypothesis.campaign_id == campaign_id, Hypothesis.state.in_(sorted(WAITING)))
        .order_by(Hypothesis.id)
    ).all()
    run = select(*_OF_EXPERIMENT).where(Experiment.campaign_id == campaign_id).order_by(Experiment.id)
    experiments = [_Experiment._make(row) for row in session.execute(run)]
    judged = (
        select(*_OF_VERDICT)
        .join(Experiment, Verdict.experiment_id == Experiment.id)
        .where(Experiment.campaign_id == campaign_id)
    )
    given = (_Verdict._make(row) for row in session.execute(judged))
    verdicts = {verdict.experiment_id: verdict for verdict in given}
    ground, found = stored_ground(session, campaign), campaign.spec[FOUND]
    spec = ground.spec
    stored = store.configurations(
        session,
        [campaign.baseline_configuration_id, campaign.naive_configuration_id]
        + [h.control_configuration_id for h in hypotheses]
        + [h.candidate_configuration_id for h in hypotheses],
    )
    known = all_settled(stored, spec.space)
    swept = [
        each
        for each in (
            _known(stored, campaign.baseline_configuration_id),
            _known(stored, campaign.naive_configuration_id),
        )
        if each is not None
    ]
    by_id = {hypothesis.id: hypothesis for hypothesis in hypotheses}
    baseline = _known(known, campaign.baseline_configuration_id)
    removed = _removed_layers(session, campaign_id)
    profiles = candidate_profiles(session, campaign_id)
    runs = resolved_by_experiment(session, campaign_id)
    trials = tuple(
        _trial(
            experiment,
            by_id[experiment.hypothesis_id],
            verdicts[experiment.id],
            known,
            baseline,
            removed.get(experiment.id),
            profiles.get(experiment.id, ()),
            runs.get(experiment.id, {}),
        )
        for experiment in experiments
        if experiment.kind == ExperimentKind.TEST
        and experiment.hypothesis_id is not None
        and experiment.id in verdicts
    )
    tested = {each.hypothesis_id for each in trials}
    baseline_run = [
        experiment.id
        for experiment in experiments
        if experiment.kind == ExperimentKind.BASELINE and experiment.state == ExperimentState.DONE
    ]
    carried = carried_trials(session, campaign, spec)
    facts = Facts(
        id=campaign.id,
        spec=spec,
        state=campaign.state,
        model_fingerprint=campaign.model_fingerprint,
        target_key=found["target_key"],
        model_layers=tuple(found["model_layers"]),
        cores=ground.cores,
        spent_s=float(campaign.budget.get("spent_s", 0.0)),
        baseline=baseline,
        naive=_known(known, campaign.naive_configuration_id),
        baseline_experiment_id=baseline_run[-1] if baseline_run else None,
        trials=trials,
        queue=tuple(_queued(hypothesis, known) for hypothesis in waiting),
        under_test=tuple(h.id for h in hypotheses if h.state == HypothesisState.TESTING),
        flying=tuple(
            (known[h.control_configuration_id], known[h.candidate_configuration_id])
            for h in hypotheses
            if h.state == HypothesisState.TESTING and not h.target
        ),
        flying_ids=tuple(h.id for h in hypotheses if h.state == HypothesisState.TESTING and not h.target),
        proposed=tuple(
            (known[h.control_configuration_id].digest, known[h.candidate_configuration_id].digest, h.state)
            for h in hypotheses
            # a comparison of bits or bytes that the campaign asked for leaves the one of latency open, and so
            # does what another campaign answered
            if not h.target
            and h.answered_by is None
            and ((h.question is None and h.stands_for is None) or h.metric == spec.plan.metric)
        ),
        asked=_asked(hypotheses),
        checkpoint=ground.checkpoint,
        stored_digests=stored_digests(spec.space, swept, spec.baseline.sweep, ground.start),
        profiles=profiles,
        compute_capability=ground.compute_capability,
        at_once=found.get(AT_ONCE),
        built_s=measured_builds(session, campaign.model_fingerprint),
        built_ahead=read_built_ahead(session, campaign.id) if len(spec.devices) > 1 else (),
        usd_per_s=usd_per_s(session, campaign.id, spec.target) if is_rented(spec.target) else None,
        disputes_tested=sum(
            h.proposer == DISPUTE and (h.id in tested or h.state == HypothesisState.TESTING)
            for h in hypotheses
        ),
        targets=read_targets(session, campaign_id, spec.confirm_on, found, trials),
        confirmed=confirmed_before(session, campaign_id) if spec.confirm_on else frozenset(),
        gpu_name=ground.gpu_name,
        auto_step_tokens=ground.auto_step_tokens,
        records=records(session, campaign_id),
        gpu_memory_bytes=ground.gpu_memory_bytes,
        start=ground.start,
        start_refused=(found.get(START) or {}).get("why"),
        carried=carried,
        carried_bests=read_carried_bests(session, campaign, spec, carried),
        worked_before=worked_before(session, campaign, spec.engine),
        failed_in_sweep=failed_in_sweep(
            session, campaign.id, spec.space, _known(known, campaign.naive_configuration_id)
        ),
        ruled_out=read_ruled_out(session, campaign, spec),
        stale_findings=read_stale_findings(session, campaign, spec),
    )
    best = facts.incumbent
    measured_in = None if best is None else best.experiment_id or facts.baseline_experiment_id
    if best is None or measured_in is None:
        return facts
    rows = {each: number for number, each in known.items()}
    return replace(
        facts,
        incumbent_runs=resolved_of(session, measured_in, rows[best.configuration]),
        incumbent_first_token_share=(
            None
            if best.experiment_id is None or facts.objective is not Metric.E2EL_MS
            else first_token_share_of(session, best.experiment_id, spec.plan.workload.new_tokens)
        ),
    )


def _known(known: Mapping[int, Configuration], configuration_id: int | None) -> Configuration | None:
    return None if configuration_id is None else known[configuration_id]


def _asked(hypotheses: Sequence[_Hypothesis]) -> tuple[tuple[str, HypothesisState], ...]:
    """Each question with the state of its hypothesis, or of the newest that stands for that."""
    instead = {each.stands_for: each.state for each in hypotheses}
    return tuple(
        (each.question, instead.get(each.id, each.state)) for each in hypotheses if each.question is not None
    )


def _queued(row: Hypothesis, known: Mapping[int, Configuration]) -> Queued:
    return Queued(
        id=row.id,
        claim=row.claim,
        control=known[row.control_configuration_id],
        candidate=known[row.candidate_configuration_id],
        lever=row.lever,
        prediction=Prediction.model_validate(row.prediction),
        min_effect=row.min_effect,
        proposer=row.proposer,
        pinned=row.pinned,
        rank=row.rank,
        metric=row.metric,
        question=row.question,
        separates=separates_of(row.change),
        stands_for=stands_for_of(row.change),
        foreseen=was_foreseen(row.change),
        disputes=disputes_of(row.change),
        target=row.target,
        confirms=row.confirms_experiment_id,
    )


def _trial(
    experiment: _Experiment,
    hypothesis: _Hypothesis,
    verdict: _Verdict,
    known: Mapping[int, Configuration],
    baseline: Configuration | None,
    removed: tuple[int, ...] | None,
    profile: tuple[PartTime, ...],
    runs: JsonObject,
) -> Trial:
    told = _told(verdict.quality, verdict.judge)
    bits, tasks = told.bits_relative, told.task_points_lost
    control = known[hypothesis.control_configuration_id]
    # what compares with a control of its own says nothing of the loss against the baseline
    if not is_latency(hypothesis.metric) and control != baseline:
        bits = tasks = None
    return Trial(
        hypothesis_id=hypothesis.id,
        experiment_id=experiment.id,
        control=control,
        candidate=known[hypothesis.candidate_configuration_id],
        lever=hypothesis.lever,
        outcome=Outcome(verdict.outcome.value),
        effect_log=verdict.effect_log,
        effect_se_log=told.effect_se_log,
        bits_ratio_log=None if bits is None else math.log1p(bits),
        task_points=None if tasks is None else -tasks,
        cost_s=experiment.judged_s or 0.0,
        failure_kind=experiment.failure_kind,
        acceptance_length=told.acceptance_length,
        metric=Metric(hypothesis.metric),
        removed_layers=removed,
        blames=told.blames,
        profile=profile,
        runs=runs,
    )


def _removed_layers(session: Session, campaign_id: int) -> dict[int, tuple[int, ...]]:
    """The layers that the experiments of a campaign took out, as the stage told them, by experiment."""
    query = (
        select(StageRun.experiment_id, StageRun.detail)
        .join(Experiment, Experiment.id == StageRun.experiment_id)
        .where(Experiment.campaign_id == campaign_id, StageRun.stage == Stage.PRUNE.value)
    )
    found = {}
    for experiment_id, detail in session.execute(query):
        report = (detail or {}).get("report")
        told = report.get("removed") if isinstance(report, dict) else None
        if isinstance(told, list) and all(isinstance(each, int) for each in told):
            found[experiment_id] = tuple(told)
    return found

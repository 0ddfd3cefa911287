"""What other campaigns measured on the same engine, with which beliefs begin; reads only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.known import store
from agent.campaign.known.judged_time import JUDGED_S
from agent.campaign.known.settling import all_settled
from agent.proposers.port import Trial
from agent.surrogate.carried import Carried, workload_distance
from agent.surrogate.levers import joined
from configs.asked_over import ASKED_OVER, IN_ENGINE
from configs.campaign import CampaignSpec
from configs.errors import UsageError
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import (
    Campaign,
    Event,
    Experiment,
    Finding,
    FindingEvidence,
    Hypothesis,
    ImportedEvidence,
    ImportedVerdict,
    StageRun,
    Verdict,
)
from db.states import ExperimentKind, FindingStatus, VerdictOutcome
from experiments.engines.port import NOT_INSTALLED, PartTime
from experiments.job.blame import BLAMES, blames_of
from experiments.measurement.evidence import Metric, Stage
from experiments.measurement.judging import Outcome
from experiments.space.loading import load_space
from knowledge.findings.exchange import MOST_WHOLE, ToldVerdict
from knowledge.findings.random_effects import Z
from knowledge.findings.staleness import StaleCause

MOST_CARRIED = 200
"""Outcomes of other campaigns that are looked at, those of the same target and the newest first: learning
from them is cubic in their number."""

STEP_LENGTH = "acceptance_length"
"""Where a verdict's `judge` keeps the candidate's mean number of tokens a verification step."""


@dataclass(frozen=True)
class Bearing:
    """The finding that a verdict bears on: its label, whether it is still to be believed, and whether it was
    found with the versions that its target has now."""

    label: str
    believed: bool
    same_versions: bool


@dataclass(frozen=True)
class _Asked:
    """What trials were asked: requests at once with tokens in, and how."""

    load: tuple[int, int]
    over: str

    def distance(self, other: _Asked) -> float:
        """How far two are apart: loads by their size, and another way is one difference more."""
        return workload_distance(self.load, other.load) + (self.over != other.over)


@dataclass(frozen=True)
class Ground:
    """What trial 0 of another campaign told of its ground."""

    tpot_ms: float
    bandwidth_bytes_per_s: float | None = None
    profile: tuple[PartTime, ...] = ()


def carried_trials(session: Session, campaign: Campaign, spec: CampaignSpec) -> tuple[Carried, ...]:
    """Trials on this campaign's objective from others with its engine, oldest first, and imported verdicts.

    With what each of these campaigns told of its trial 0; without that, those under another workload or on
    another target are left out: which shares the parts of a step had there is not known. The target is a kind
    of hardware with its memory, as campaigns name it. Tests on another target than their campaign's,
    reproductions, confounded tests and those of what nothing there could make are left out, and verdicts
    whose finding a note made stale.
    """
    here = _Asked(
        (spec.plan.workload.concurrency, spec.plan.workload.prompt_tokens), spec.plan.workload.asked_over
    )
    found = [*_imported(session, campaign, spec, here), *_measured(session, campaign, spec, here)]
    return tuple(found[-MOST_CARRIED:])


def _measured(session: Session, campaign: Campaign, spec: CampaignSpec, here: _Asked) -> list[Carried]:
    asked, there = Campaign.spec["engine"].as_string(), Campaign.spec["plan"]["workload"]
    rows = session.execute(
        select(
            Campaign.id.label("campaign"),
            Campaign.model_fingerprint.label("model"),
            Campaign.target.label("target"),
            there["concurrency"].as_integer().label("concurrency"),
            there["prompt_tokens"].as_integer().label("prompt_tokens"),
            there[ASKED_OVER].as_string().label(ASKED_OVER),
            Hypothesis.id.label("hypothesis"),
            Hypothesis.control_configuration_id.label("control"),
            Hypothesis.candidate_configuration_id.label("candidate"),
            Hypothesis.lever,
            Campaign.baseline_configuration_id.label("baseline"),
            Experiment.id.label("experiment"),
            Experiment.failure_kind,
            JUDGED_S,
            Verdict.id.label("verdict"),
            Verdict.outcome,
            Verdict.effect_log,
            Verdict.quality,
            Verdict.judge["details"]["effect_se_log"].as_float().label("effect_se_log"),
            Verdict.judge[STEP_LENGTH].as_float().label("acceptance_length"),
            Verdict.judge[BLAMES].label(BLAMES),
        )
        .join_from(Verdict, Experiment, Experiment.id == Verdict.experiment_id)
        .join(Hypothesis, Hypothesis.id == Verdict.hypothesis_id)
        .join(Campaign, Campaign.id == Hypothesis.campaign_id)
        .where(
            Campaign.id != campaign.id,
            asked == spec.engine,
            Experiment.kind == ExperimentKind.TEST,
            Experiment.reproduces_experiment_id.is_(None),
            Hypothesis.target == "",
            Hypothesis.metric == spec.plan.metric,
            Verdict.outcome != VerdictOutcome.CONFOUNDED,
            Experiment.failure_kind.is_distinct_from(NOT_INSTALLED),
        )
        .order_by((Campaign.target == campaign.target).desc(), Verdict.id.desc())
        .limit(MOST_CARRIED)
    ).all()
    grounds = _grounds(session, {row.campaign for row in rows})
    bearings = _bearings(session, [row.verdict for row in rows])
    stored = store.configurations(session, [each for row in rows for each in (row.control, row.candidate)])
    known = all_settled(stored, spec.space)
    found = []
    for row in reversed(rows):
        bearing = bearings.get(row.verdict, Bearing("", believed=True, same_versions=True))
        ground = grounds.get(row.campaign)
        workload = _Asked((row.concurrency, row.prompt_tokens), row.asked_over or IN_ENGINE)
        is_here = workload == here and row.target == campaign.target
        if not bearing.believed or (ground is None and not is_here):
            continue
        bits, tasks = _lost(row.quality or {}) if row.control == row.baseline else (None, None)
        trial = Trial(
            hypothesis_id=row.hypothesis,
            experiment_id=row.experiment,
            control=known[row.control],
            candidate=known[row.candidate],
            lever=row.lever,
            outcome=Outcome(row.outcome.value),
            effect_log=row.effect_log,
            effect_se_log=row.effect_se_log,
            bits_ratio_log=bits,
            task_points=tasks,
            cost_s=row.judged_s or 0.0,
            failure_kind=row.failure_kind,
            acceptance_length=row.acceptance_length,
            metric=Metric(spec.plan.metric),
            blames=blames_of({BLAMES: row.blames}),
        )
        found.append(
            Carried(
                trial,
                format_label(Noun.CAMPAIGN, row.campaign),
                same_model=row.model == campaign.model_fingerprint,
                same_workload=workload == here,
                tpot_ms=None if ground is None else ground.tpot_ms,
                same_hardware=row.target == campaign.target,
                same_versions=bearing.same_versions,
                distance=workload.distance(here),
                bandwidth_bytes_per_s=None if ground is None else ground.bandwidth_bytes_per_s,
                profile=() if ground is None else ground.profile,
                finding=bearing.label,
            )
        )
    return found


def _imported(session: Session, campaign: Campaign, spec: CampaignSpec, here: _Asked) -> list[Carried]:
    """Verdicts of other databases on this engine and target: of other hardware their trial 0 is not told.
    What is no configuration of this campaign's space is left out."""
    rows = session.execute(
        select(ImportedVerdict.told, ImportedVerdict.origin, Finding)
        .join(ImportedEvidence, ImportedEvidence.imported_verdict_id == ImportedVerdict.id)
        .join(Finding, Finding.id == ImportedEvidence.finding_id)
        .where(
            ImportedVerdict.told["engine"].as_string() == spec.engine,
            ImportedVerdict.told["target"].as_string() == campaign.target,
            ImportedVerdict.told["metric"].as_string() == spec.plan.metric,
        )
        .order_by(ImportedVerdict.id.desc())
        .limit(MOST_CARRIED)
    ).all()
    if not rows:
        return []
    found, space = [], load_space(spec.space)
    for stored, origin, finding in reversed(rows):
        told, bearing = ToldVerdict.model_validate(stored), _bearing(finding)
        if told.outcome is VerdictOutcome.CONFOUNDED or told.of_an_open_test or not bearing.believed:
            continue
        try:
            control, candidate = (
                space.that_has(each).configuration(each) for each in (told.control, told.candidate)
            )
        except UsageError:
            continue  # what this space has no place for says nothing that is known of it
        at_once, tokens = (_count(told.workload.get(name)) for name in ("concurrency", "prompt_tokens"))
        over = str(told.workload.get(ASKED_OVER) or IN_ENGINE)
        workload = here if at_once is None or tokens is None else _Asked((at_once, tokens), over)
        error = None
        if told.low_log is not None and told.high_log is not None:
            error = max((told.high_log - told.low_log) / (2 * Z), 1e-4)
        trial = Trial(
            hypothesis_id=0,
            experiment_id=0,
            control=control,
            candidate=candidate,
            lever=joined(space.levers_between(control, candidate)),
            outcome=Outcome(told.outcome.value),
            effect_log=told.effect_log,
            effect_se_log=error,
            bits_ratio_log=None,
            task_points=None,
            cost_s=0.0,
            failure_kind="imported" if told.outcome is VerdictOutcome.INFEASIBLE else None,
            metric=Metric(spec.plan.metric),
        )
        found.append(
            Carried(
                trial,
                f"{told.campaign} of {origin}",
                same_model=told.model_fingerprint == campaign.model_fingerprint,
                same_workload=workload == here,
                same_versions=bearing.same_versions,
                distance=1 + workload.distance(here),  # and shares of a step there are not known
                finding=bearing.label,
            )
        )
    return found


def _count(value: object) -> int | None:
    """A number of requests or tokens that was told; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value <= MOST_WHOLE else None


def _lost(quality: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Log ratio of bits and task points against the baseline, where they were measured."""
    bits, tasks = quality.get("bits_per_byte_relative"), quality.get("task_points_lost")
    return (
        None if bits is None else math.log1p(bits["difference"]),
        None if tasks is None else -tasks["difference"],
    )


def _bearings(session: Session, verdict_ids: list[int]) -> dict[int, Bearing]:
    rows = session.execute(
        select(FindingEvidence.verdict_id, Finding)
        .join(Finding, Finding.id == FindingEvidence.finding_id)
        .where(FindingEvidence.verdict_id.in_(verdict_ids))
        .order_by(Finding.id.desc())
    )
    return {verdict: _bearing(finding) for verdict, finding in rows}


def _bearing(finding: Finding) -> Bearing:
    stale = finding.status is FindingStatus.STALE
    by_versions = finding.stale_cause == StaleCause.VERSIONS
    return Bearing(
        format_label(Noun.FINDING, finding.id),
        believed=finding.status is not FindingStatus.WITHDRAWN and not (stale and not by_versions),
        same_versions=not (stale and by_versions) and finding.status is not FindingStatus.SUPERSEDED,
    )


def _grounds(session: Session, campaign_ids: set[int]) -> dict[int, Ground]:
    """What trial 0 takes in these campaigns, ms a token, where it was told; and its profile."""
    told = session.execute(
        select(Event.campaign_id, Event.data["baseline"]["tpot_ms"].as_float())
        .where(Event.campaign_id.in_(campaign_ids), Event.kind == EventKind.CAMPAIGN_BASELINE)
        .order_by(Event.id)
    )
    found = {campaign: Ground(tpot_ms) for campaign, tpot_ms in told if campaign is not None and tpot_ms}
    profiles = session.execute(
        select(Experiment.campaign_id, StageRun.detail)
        .join(Experiment, Experiment.id == StageRun.experiment_id)
        .where(
            Experiment.campaign_id.in_(found),
            Experiment.kind == ExperimentKind.BASELINE,
            StageRun.stage == Stage.PROFILE.value,
        )
        .order_by(StageRun.id)
    )
    for campaign, detail in profiles:
        parts, bandwidth = (detail or {}).get("parts"), (detail or {}).get("bandwidth_bytes_per_s")
        found[campaign] = Ground(
            found[campaign].tpot_ms,
            float(bandwidth) if isinstance(bandwidth, int | float) else None,
            tuple(PartTime(**part) for part in parts) if isinstance(parts, list) else (),
        )
    return found

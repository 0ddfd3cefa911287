"""What a campaign tells a language model: from its desk and the database to values; reads only.

Figures, names of knobs and words of closed vocabularies are the house's own. Whatever others may have written
(names of models and of hardware, reasons that quote a log, claims of findings, notes) goes through
`quoting.plain`. Of a model's folder only the last part is told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import PurePath

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.asked_model.refused_told import refused_of_answers
from agent.campaign.decision.desk import Desk
from agent.language_model.digest import REFUSED, Known
from agent.language_model.question import least_percent
from agent.language_model.quoting import plain
from agent.proposers.neighbours import QUANTIZATION
from agent.proposers.port import Trial
from agent.surrogate.levers import NOISE_KNOBS
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Event, Finding, Hypothesis
from db.states import FindingStatus
from experiments.engines.port import PartTime
from experiments.measurement.evidence import Json, Metric
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration
from experiments.space.knob import Knob
from knowledge.stored import metric_of

MOST_VERDICTS, MOST_FINDINGS, MOST_NOTES, MOST_PARTS, MOST_WAITING = 60, 60, 10, 12, 20
"""Entries of each list that are looked at; how many are told is for the digest."""

LONGEST_CLAIM = 320
"""Characters of a finding's claim, whose end says what came of the change."""

PROFILE_IN_REQUESTS = "a decode step; a request has one for each token after its first"
"""What is said of the profile where the campaign is about requests to their last token."""

_STANDS = (FindingStatus.HOLDS, FindingStatus.CONTRADICTED)
"""Findings that may be built on."""


def turnable(desk: Desk) -> tuple[Knob, ...]:
    """The knobs that a proposal may turn: those with values to choose from, on levers that are open.

    Noise is none, nor is quantization where it saves no time. What a knob may hold beyond its values, such as
    a path, is not among them.
    """
    view = desk.view
    return tuple(
        knob
        for knob in view.space.knobs
        if len(knob.values) > 1 or (knob.values and knob.when)
        if knob.lever not in view.banned_levers and knob.name not in NOISE_KNOBS
        if view.serves_packed or knob.lever != QUANTIZATION
    )


def findings_in_scope(session: Session, desk: Desk) -> list[Finding]:
    """Findings that hold or are contradicted, reached on this target and engine, on this campaign's metric:
    those of its own model first, then the largest."""
    facts = desk.facts
    rows = session.scalars(select(Finding).where(Finding.status.in_(_STANDS)).order_by(Finding.id))
    found = [
        each
        for each in rows
        if each.scope.get("target") == facts.target_key
        and each.scope.get("engine") == facts.spec.engine
        and metric_of(each.scope) == facts.objective
    ]
    found.sort(key=lambda each: (not _same_model(each, desk), -abs(each.effect_log or 0.0), each.id))
    return found[:MOST_FINDINGS]


def known(session: Session, desk: Desk, findings: Sequence[Finding]) -> Known:
    """All that may be told, each list with its most valuable first."""
    facts, view = desk.facts, desk.view
    plan = facts.spec.plan
    reasons = _reasons(session, facts.id)
    judged = list(reversed(facts.trials))[:MOST_VERDICTS]
    held = [each for each in judged if each.outcome is Outcome.SUPPORTED]
    others = [each for each in judged if each.outcome is not Outcome.SUPPORTED]
    best = desk.incumbent
    always: dict[str, Json] = {
        "campaign": {
            "model": plain(PurePath(facts.spec.model).name),
            "target": plain(facts.target_key),
            "engine": plain(facts.spec.engine),
            "metric": facts.objective.value,
            "least_effect_percent": least_percent(plan.min_effect),
            "bits_per_byte_may_rise_percent": _rounded(100 * plan.margins.bits_per_byte),
            "concurrency": plan.workload.concurrency,
            "prompt_tokens": plan.workload.prompt_tokens,
            "new_tokens": plan.workload.new_tokens,
        },
        **_baseline(desk),
        "best": {
            "hypothesis": None
            if best.hypothesis_id is None
            else format_label(Noun.HYPOTHESIS, best.hypothesis_id),
            "percent_of_baseline": _rounded(100 * math.exp(best.log_ratio)),
            "knobs": {plain(name): _value(value) for name, value in best.configuration.items()},
        },
        "knobs": [_knob(each) for each in turnable(desk)],
    }
    lists: dict[str, Sequence[Json]] = {
        "profile": []
        if facts.objective is Metric.TTFT_MS
        else _profile(view.incumbent_profile or view.profile),
        "steering": [
            {"kind": each.kind.value, "lever": plain(each.lever)}
            for each in desk.directives
            if each.lever is not None
        ],
        "verdicts": [_verdict(each, desk, reasons) for each in held],
        "ruled_out": [_verdict(each, desk, reasons) for each in others],
        "findings": [_finding(each, desk) for each in findings],
        "waiting": [
            {"id": format_label(Noun.HYPOTHESIS, each.id), "change": _change(each.control, each.candidate)}
            for each in facts.queue[:MOST_WAITING]
            if not each.target
        ],
        REFUSED: refused_of_answers(session, facts.id, {each.name: each for each in view.space.knobs}),
        "notes": _notes(session, facts.id),
    }
    return Known(always, lists)


def _baseline(desk: Desk) -> dict[str, Json]:
    """What the baseline takes, on the campaign's metric; of whole requests also what they are made of, and
    how the profile, which is of a decode step, counts there."""
    objective, view = desk.facts.objective, desk.view
    if objective is Metric.TPOT_MS:
        return {"baseline_ms_a_token": _rounded(view.tpot_ms)}
    own_ms = desk.baseline.own_ms.get(desk.baseline_configuration.digest)
    took: dict[str, Json] = {} if own_ms is None else {objective.value: _rounded(own_ms)}
    prompt = desk.lone_prompt
    if prompt is not None and objective in (Metric.TTFT_MS, Metric.E2EL_MS):
        took["lone_prompt"] = {
            "first_token_ms": _rounded(prompt.first_token_ms),
            "no_kernel_runs_ms": _rounded(prompt.outside_ms),
            "products_ms": _rounded(prompt.products_ms),
        }
    if objective is Metric.TTFT_MS:
        return {"baseline": took}
    took[Metric.TPOT_MS.value] = _rounded(view.tpot_ms)
    if objective is not Metric.E2EL_MS or view.ttft_ms is None:
        return {"baseline": took}
    took[Metric.TTFT_MS.value] = _rounded(view.ttft_ms)
    took["first_token_percent"] = _rounded(100 * view.first_token_share)
    return {"baseline": took, "profile_is_of": PROFILE_IN_REQUESTS}


def _knob(knob: Knob) -> Json:
    told: dict[str, Json] = {"name": knob.name, "values": [_value(each) for each in knob.values]}
    if knob.when:
        told["only_when"] = {name: [_value(each) for each in values] for name, values in knob.when}
    return told


def _value(value: bool | int | float | str) -> Json:
    return plain(value) if isinstance(value, str) else value


def _profile(parts: Sequence[PartTime]) -> list[Json]:
    """Time of a decode step by kind of part, the largest first."""
    by_kind: dict[str, float] = {}
    for part in parts:
        by_kind[part.kind] = by_kind.get(part.kind, 0.0) + part.time_ms
    largest = sorted(by_kind.items(), key=lambda each: (-each[1], each[0]))[:MOST_PARTS]
    return [{"part": plain(kind), "ms": _rounded(time_ms)} for kind, time_ms in largest]


def _verdict(trial: Trial, desk: Desk, reasons: dict[int, str]) -> Json:
    told: dict[str, Json] = {
        "id": format_label(Noun.HYPOTHESIS, trial.hypothesis_id),
        "change": _change(trial.control, trial.candidate),
        "outcome": trial.outcome.value,
    }
    if trial.effect_log is not None:
        told["percent"] = _rounded(100 * math.expm1(trial.effect_log))
    if trial.bits_ratio_log is not None:
        told["bits_per_byte_percent"] = _rounded(100 * math.expm1(trial.bits_ratio_log))
    if trial.metric is not None and not trial.on_objective:
        told["metric"] = trial.metric.value
    if trial.control != desk.incumbent.configuration:
        told["on_another_best"] = True
    if trial.failure_kind is not None:
        told["failure"] = plain(trial.failure_kind)
    if trial.outcome is not Outcome.SUPPORTED and trial.hypothesis_id in reasons:
        told["why"] = plain(reasons[trial.hypothesis_id])
    return told


def _finding(finding: Finding, desk: Desk) -> Json:
    told: dict[str, Json] = {
        "id": format_label(Noun.FINDING, finding.id),
        "claim": plain(finding.claim, LONGEST_CLAIM),
        "status": finding.status.value,
        "strength": plain(finding.strength),
        "of_this_model": _same_model(finding, desk),
    }
    if finding.effect_log is not None:
        told["percent"] = _rounded(100 * math.expm1(finding.effect_log))
    return told


def _same_model(finding: Finding, desk: Desk) -> bool:
    return bool(finding.scope.get("model_fingerprint") == desk.facts.model_fingerprint)


def _change(control: Configuration, candidate: Configuration) -> Json:
    """What differs, knob by knob; None stands for a knob that is not active."""
    return {
        plain(change.knob): [None if each is None else _value(each) for each in (change.before, change.after)]
        for change in control.changes_to(candidate)
    }


def _reasons(session: Session, campaign_id: int) -> dict[int, str]:
    """Why hypotheses are in the state they are in."""
    query = select(Hypothesis.id, Hypothesis.state_reason).where(
        Hypothesis.campaign_id == campaign_id, Hypothesis.state_reason.is_not(None)
    )
    return {number: str(reason) for number, reason in session.execute(query)}


def _notes(session: Session, campaign_id: int) -> list[Json]:
    """What the user noted, the newest first: of this campaign and of none."""
    query = (
        select(Event.text)
        .where(
            Event.kind == EventKind.NOTE_ADDED.value,
            (Event.campaign_id == campaign_id) | Event.campaign_id.is_(None),
        )
        .order_by(Event.id.desc())
        .limit(MOST_NOTES)
    )
    return [plain(text) for text in session.scalars(query)]


def _rounded(value: float) -> float:
    """Four significant digits: more would be spent on noise."""
    return float(f"{value:.4g}")

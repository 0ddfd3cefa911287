"""A stored A/A series as a report: pairs read back from their raw samples, and the report as JSON data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from agent.judge.aa_pairs import AaPair, effects, level
from agent.judge.aa_replay import Judged
from agent.judge.aa_statistics import Estimate, share
from agent.judge.assumptions import AaReport, report
from agent.noise.series import AaAsked, pairs_of, read_series
from configs.campaign import CampaignSpec
from db.labels import Noun, format_label
from db.models import Campaign, Experiment
from experiments.job.named import load_judge
from experiments.measurement.evidence import Metric, NoiseProfile
from experiments.measurement.judging import Outcome
from experiments.measurement.noise import noise_key
from experiments.measurement.plan import Prediction, StoppingPlan
from experiments.recording import load_launches, load_noise
from knowledge.scope import workload_words

_JUDGED = (Outcome.SUPPORTED, Outcome.REFUTED, Outcome.INCONCLUSIVE, Outcome.CONFOUNDED, Outcome.INFEASIBLE)


@dataclass(frozen=True)
class SeriesReport:
    """A series, what it says, and the noise profile of its target as it stands now."""

    label: str
    spec: CampaignSpec
    asked: AaAsked
    target_key: str
    state: str
    found: AaReport
    profile: NoiseProfile
    judge: str


def series_report(session: Session, series_id: int) -> SeriesReport:
    """Read a series back and look at it; raises `UsageError` for a campaign that is none."""
    spec, asked = read_series(session, series_id)
    row = session.get_one(Campaign, series_id)
    judge = load_judge(spec.judge)
    condition = "alone" if asked.alone else "beside" if asked.beside else None
    plan = plan_of_campaign(spec)
    noise_of = noise_key(row.target, in_turn=False, asked_over=spec.plan.workload.asked_over)
    return SeriesReport(
        label=format_label(Noun.CAMPAIGN, series_id),
        spec=spec,
        asked=asked,
        target_key=row.target,
        state=row.state.value,
        found=report(load_pairs(session, series_id), plan, judge, asked.blocks, condition),
        profile=load_noise(session, noise_of, row.model_fingerprint, Metric(spec.plan.metric)),
        judge=f"{judge.name} {judge.version}",
    )


def plan_of_campaign(spec: CampaignSpec) -> StoppingPlan:
    """The plan of a campaign's experiments; hypotheses bring predictions, and here is none."""
    nothing = Prediction(log_ratio_mean=0.0, log_ratio_sd=1.0)
    return StoppingPlan.model_validate({**spec.plan.model_dump(), "prediction": nothing})


def load_pairs(session: Session, series_id: int) -> list[AaPair]:
    """The measured pairs of a series, by their number, with all samples."""
    _, asked = read_series(session, series_id)
    found: dict[int, tuple[int, datetime | None]] = {}
    for row in pairs_of(session, series_id):
        if row.measured and row.pair not in found:
            found[row.pair] = row.experiment_id, session.get_one(Experiment, row.experiment_id).started_at
    begun = min((at for _, at in found.values() if at is not None), default=None)
    pairs = []
    for number, (experiment_id, at) in sorted(found.items()):
        first, second = load_launches(session, experiment_id)
        at_s = 0.0 if at is None or begun is None else (at - begun).total_seconds()
        pairs.append(AaPair(number, at_s, first, second, asked.differs(number)))
    return pairs


def load_pair(session: Session, experiment_id: int) -> tuple[str, float, float]:
    """What one pair showed: the metric, its geometric mean over both launches, the effect of the
    second seat."""
    metric = Metric(session.get_one(Experiment, experiment_id).plan["metric"])
    first, second = load_launches(session, experiment_id)
    pair = AaPair(0, 0.0, first, second)
    [effect] = effects([pair], metric)
    return metric.value, math.exp(level(pair, metric)), effect.effect_log


def as_document(told: SeriesReport) -> dict[str, Any]:
    """The report as plain JSON data; spreads and effects are natural logs, shares between 0 and 1."""
    found, asked = told.found, told.asked
    replay, contrast = found.judged, found.contrast
    return {
        "series": told.label,
        "state": told.state,
        "model": told.spec.model,
        "target": told.target_key,
        "engine": told.spec.engine,
        "metric": told.spec.plan.metric,
        "configuration": dict(asked.configuration),
        "workload": workload_words(told.spec.plan.workload.model_dump()),
        "launches_asked": asked.launches,
        "launches": 2 * (found.pairs + found.pairs_apart),
        "blocks": asked.blocks,
        "condition": None if contrast is None else contrast.what,
        "beside": list(asked.beside),
        "launch_sd_log": _estimate(found.launch_sd),
        "variance_log": None
        if found.parts is None
        else {
            name: {**_known(estimate), "share": own}
            for name, estimate, own in zip(
                ("launches", "blocks", "requests"),
                (found.parts.launches, found.parts.blocks, found.parts.requests),
                found.parts.shares,
                strict=True,
            )
        },
        "requests_a_launch": {"measured": found.samples, "effective": found.effective},
        "assumptions": [
            {
                "name": each.name,
                "status": each.status.value,
                "sentence": each.sentence,
                "estimate": _estimate(each.estimate),
            }
            for each in found.assumptions
        ],
        "contrast": None
        if contrast is None
        else {
            "what": contrast.what,
            "level_log": _estimate(contrast.level),
            "launch_sd_log_without": _estimate(contrast.sd_without),
            "launch_sd_log_with": _estimate(contrast.sd_with),
            "sd_ratio": _estimate(contrast.sd_ratio),
        },
        "judged": {
            "judge": told.judge,
            "min_effect": found.plan.min_effect,
            "alpha": found.plan.alpha,
            "experiments": outcomes(replay.experiments),
            "pairs_left": replay.pairs_left,
            "first_looks": {
                **outcomes(replay.first_looks),
                "beyond_min_effect": _known(share(replay.first_beyond, len(replay.first_looks)))
                | {"count": replay.first_beyond},
            },
        },
        "profile": {
            "launches": told.profile.launches,
            "degrees_of_freedom": told.profile.degrees_of_freedom,
            "launch_sd_log": told.profile.launch_sd_log,
        },
    }


def outcomes(judged: tuple[Judged, ...]) -> dict[str, Any]:
    """How many came out how, each with the exact binomial interval of its share."""
    counts = {outcome: sum(each.outcome is outcome for each in judged) for outcome in _JUDGED}
    return {
        "n": len(judged),
        **{
            outcome.value: {"count": count, **_known(share(count, len(judged)))}
            for outcome, count in counts.items()
        },
    }


def _known(found: Estimate) -> dict[str, Any]:
    value = None if found.n == 0 else found.value
    return {"value": value, "low": found.low, "high": found.high, "n": found.n}


def _estimate(found: Estimate | None) -> dict[str, Any] | None:
    return None if found is None else _known(found)

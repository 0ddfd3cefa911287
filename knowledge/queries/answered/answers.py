"""What became of the questions a campaign asks: each contrast with its verdict, and what its stages told."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.campaign import load_campaign
from configs.catalog import Kind, packaged_names
from configs.targets import serving_on
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Launch
from experiments.space.configuration import Configuration as Point
from knowledge.queries.answered.answers_view import AnswersView, AnswerView, ContrastView
from knowledge.queries.answered.contrast_rows import (
    hypotheses_asked,
    knobs_of,
    reproductions_of,
    resolved_of,
    sums_of,
)
from knowledge.queries.answered.contrasts import Gathered
from knowledge.queries.measured.drafting import step_times_ms
from knowledge.queries.measured.stages import stage_reports
from knowledge.scope import Scope
from knowledge.stored import engine_of, number, versions_of, workload_of


def campaign_answers(session: Session, campaign_id: int) -> AnswersView:
    """Return what became of the questions of a campaign, which must exist; a fixed number of statements."""
    campaign = session.get_one(Campaign, campaign_id)
    asked: list[dict[str, Any]] = campaign.spec.get("questions") or []
    found = hypotheses_asked(session, campaign_id)
    experiments = [each.test.id for each in found.values() if each.test is not None]
    gathered = Gathered(
        baseline=knobs_of(session, [campaign.baseline_configuration_id]).get(
            campaign.baseline_configuration_id or 0
        ),
        knobs=knobs_of(
            session,
            [each.hypothesis.control_configuration_id for each in found.values()]
            + [each.hypothesis.candidate_configuration_id for each in found.values()],
        ),
        resolved=resolved_of(session, experiments),
        sums=sums_of(session, experiments),
        step_ms=step_times_ms(session, experiments),
        reports=stage_reports(session, experiments),
        reproductions=reproductions_of(session, experiments),
        stopped_because=campaign.stopped_because,
        alpha=float(campaign.limits.get("alpha", 0.0)),
    )
    by_question: dict[str, list[ContrastView]] = defaultdict(list)
    for question in asked:
        by_question[question["asks"]].append(gathered.contrast(question, found.get(question["id"])))
    return AnswersView(
        campaign=format_label(Noun.CAMPAIGN, campaign_id),
        name=campaign.name,
        model=campaign.model,
        model_fingerprint=campaign.model_fingerprint,
        seed=campaign.seed,
        started_at=campaign.started_at,
        state=campaign.state,
        stopped_because=campaign.stopped_because,
        baseline=gathered.baseline,
        parameter_budget=campaign.spec.get("parameter_budget"),
        spent_s=number(campaign.budget.get("spent_s")) or 0.0,
        scope=_scope(session, campaign),
        given=_given(campaign),
        answers=tuple(AnswerView(asks=asks, contrasts=tuple(each)) for asks, each in by_question.items()),
    )


def _scope(session: Session, campaign: Campaign) -> str:
    resolved = session.scalar(
        select(Launch.resolved)
        .join(Experiment, Experiment.id == Launch.experiment_id)
        .where(Experiment.campaign_id == campaign.id)
        .order_by(Launch.id.desc())
        .limit(1)
    )
    plan = campaign.spec.get("plan") or {}
    return Scope.of(
        model=campaign.model,
        model_fingerprint=campaign.model_fingerprint,
        target=campaign.target,
        engine=engine_of(campaign.spec),
        versions=versions_of(resolved or {}),
        workload=workload_of(plan),
        control=Point.of({}),
    ).sentence()


def _given(campaign: Campaign) -> tuple[str, ...]:
    """Options for what is not as in the packaged file of that name; budget and seed of any other file."""
    spec = campaign.spec
    packaged = campaign.name in packaged_names(Kind.CAMPAIGNS)
    file = load_campaign(campaign.name).model_dump(mode="json") if packaged else {}
    found = _served_by(spec, file) if packaged else []
    budget = {"wall_s": campaign.budget.get("wall_s", spec["budget"]["wall_s"])}  # with what was added later
    if budget != file.get("budget"):
        found.append(f"--budget {math.ceil(budget['wall_s'])}s")
    if spec["seed"] != file.get("seed"):
        found.append(f"--seed {spec['seed']}")
    if spec.get("drafter") is not None:
        found.append("--drafter DIR")
    if packaged and spec["plan"]["min_effect"] != file["plan"]["min_effect"]:
        found.append(f"--min-effect {100 * spec['plan']['min_effect']:g}%")
    return tuple(found)


def _served_by(spec: Mapping[str, Any], file: Mapping[str, Any]) -> list[str]:
    """Options for target, engine and space that a packaged campaign does not take of itself: on a target it
    has that target's engine, and of an engine that engine's space."""
    found = []
    if spec["target"] != file["target"]:
        found.append(f"--target {spec['target']}")
    taken = {**file, **serving_on(spec["target"])}
    if spec["engine"] != taken["engine"]:
        found.append(f"--engine {spec['engine']}")
        taken = {**file, **serving_on(spec["target"], spec["engine"])}
    if spec["space"] != taken["space"]:
        found.append(f"--space {spec['space']}")
    return found

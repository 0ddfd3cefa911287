"""From a campaign in the database to its report."""

from __future__ import annotations

from datetime import datetime
from importlib.metadata import version

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from configs.errors import UsageError
from db.labels import Noun, format_label
from db.models import Campaign, Configuration, Event
from db.models.base import JsonObject
from db.noise import SERIES_NAME
from db.states import FindingStatus
from knowledge.queries.answered.answers import campaign_answers
from knowledge.queries.baseline_in_tests import baseline_in_tests
from knowledge.queries.campaigns import CampaignView, campaign_detail
from knowledge.queries.claims.calibration import calibration
from knowledge.queries.claims.hypotheses import Asked
from knowledge.queries.claims.model_answers import asked_of_model
from knowledge.queries.claims.predictions import predictions
from knowledge.queries.claims.proposers import ProposerView, proposers
from knowledge.queries.found.findings import FindingView, list_findings
from knowledge.queries.found.in_doubt import in_doubt
from knowledge.queries.found.verification import verification
from knowledge.queries.measured.gpu_throttling import gpu_throttling
from knowledge.queries.order.carried import carried_view
from knowledge.queries.pareto import pareto
from knowledge.queries.present.now_reached import best_of
from knowledge.queries.spent.costs import costs
from knowledge.queries.story import interruptions
from knowledge.report import evidence
from knowledge.report import trials as path
from knowledge.report.view import AnsweredView, InDoubtView, InterruptionView, ReportView
from knowledge.stored import engine_of
from knowledge.telling.answers_sentence import answer_sentence

MOST_FINDINGS = 1_000
"""Findings told at most, in the order of their numbers."""


def report(session: Session, campaign_id: int, made_at: datetime) -> ReportView:
    """Everything about a campaign, which must exist; `made_at` alone depends on when it is made.

    Raises `UsageError` for an A/A series, which tests nothing.
    """
    campaign = session.get_one(Campaign, campaign_id)
    label = format_label(Noun.CAMPAIGN, campaign_id)
    if campaign.name == SERIES_NAME:
        raise UsageError(f"{label} is an A/A series.", f"See what it says: autoinfer aa {label}")
    tested = path.trials(session, campaign)
    sealed = evidence.seals(session, campaign_id)
    machines = evidence.machines(session, campaign_id)
    best = best_of(session, campaign)
    return ReportView(
        made_at=made_at,
        autoinfer=version("autoinfer"),
        written_at=session.scalar(select(func.max(Event.at)).where(Event.campaign_id == campaign_id)),
        campaign=_settled(campaign_detail(session, campaign_id)),
        plan=campaign.spec.get("plan") or {},
        engine=engine_of(campaign.spec),
        judge=str(campaign.spec.get("judge", "")),
        judge_versions=evidence.judge_versions(session, campaign_id),
        space=str(campaign.spec.get("space", "")),
        spec=evidence.spec_of(campaign),
        questions=_questions(session, campaign),
        baseline=_baseline(session, campaign),
        best=best,
        baseline_in_tests=baseline_in_tests(session, campaign_id),
        throttling=gpu_throttling(session, campaign_id),
        pareto=pareto(session, campaign_id),
        trials=tested,
        again=path.again(session, campaign_id),
        further_workloads=path.further(session, campaign_id),
        search=path.search(session, campaign_id),
        interruptions=tuple(
            InterruptionView(event_id=each.event, at=each.at, subject=each.subject, text=each.text)
            for each in interruptions(session, campaign_id)
        ),
        proposers=_proposers(session, campaign_id),
        asked=asked_of_model(session, campaign_id),
        carried=carried_view(session, campaign_id),
        verification=verification(session, campaign_id),
        in_doubt=tuple(
            InDoubtView(experiment=experiment, because=because)
            for experiment, because in in_doubt(session, campaign_id).items()
        ),
        findings=_findings(session, campaign_id),
        predictions=predictions(session, Asked(campaign_id), in_points=True),
        calibration=calibration(session, campaign_id),
        seals=sealed,
        costs=costs(session, campaign_id),
        machines=machines,
        artifacts=evidence.artifacts(session, campaign_id),
        samples=evidence.samples(session, campaign),
        commands=evidence.commands(campaign, best, tested, sealed, machines),
    )


def _settled(found: CampaignView) -> CampaignView:
    """The campaign without what the clock alone makes of one that has not ended: its age, whether it goes on,
    and what rests as long as it is."""
    if found.ended_at is not None:
        return found
    spent = found.spent.model_copy(update={"wall_s": None})
    return found.model_copy(update={"spent": spent, "interrupted": False, "devices_at_rest": ()})


def _proposers(session: Session, campaign_id: int) -> tuple[ProposerView, ...]:
    """Who proposed, without the chance that rests on what other campaigns came to since."""
    found = proposers(session, campaign_id)
    return tuple(each.model_copy(update={"chance": None}) for each in found)


def _baseline(session: Session, campaign: Campaign) -> JsonObject | None:
    found = session.get(Configuration, campaign.baseline_configuration_id or 0)
    return None if found is None else found.knobs


def _questions(session: Session, campaign: Campaign) -> tuple[AnsweredView, ...]:
    if not campaign.spec.get("questions"):
        return ()
    found = campaign_answers(session, campaign.id)
    return tuple(
        AnsweredView(asks=each.asks, answer=answer_sentence(each.contrasts, found.contrasts))
        for each in found.answers
    )


def _findings(session: Session, campaign_id: int) -> tuple[FindingView, ...]:
    """Those that verdicts of the campaign bear on, by number; what was superseded is left out."""
    found = list_findings(session, campaign_id=campaign_id, limit=MOST_FINDINGS).items
    kept = [each for each in found if each.status is not FindingStatus.SUPERSEDED]
    return tuple(sorted(kept, key=lambda each: (each.created_at, each.id)))

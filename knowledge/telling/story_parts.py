"""What a story is told from, and what it comes to: facts, chapters, lines. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from db.models.base import JsonObject
from db.states import CampaignState
from knowledge.queries.bests import BestView
from knowledge.queries.found.verification import VerificationView
from knowledge.queries.view import View
from knowledge.telling.facts import CampaignFacts


@dataclass(frozen=True)
class Moment:
    """An event that a story tells: its id, instant, subject, and its sentence."""

    event: int
    at: datetime
    subject: str | None
    text: str


@dataclass(frozen=True)
class BestMoment:
    """An event that told another configuration to be the best, with what it told."""

    event: int
    at: datetime
    best: BestView
    told: JsonObject


@dataclass(frozen=True)
class Said:
    """What somebody beside the agent said to a campaign, `told` as it follows a colon after `verb`: `noted`,
    `said`, `lifted`. `by` is who, None for the user; `stale` are the findings that it made stale."""

    event: int
    at: datetime
    verb: str
    told: str
    by: str | None = None
    stale: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoryFacts:
    """All that a story says, as values. `judged_at` are the instants of the verdicts of `campaign.judged`, in
    their order; `spent_usd` is None where the campaign rents nothing. Of a language model's hypotheses
    `model_judged` have a verdict, `model_supported` of them hold. `made_stale` are findings that became stale
    by something else than what was `said`."""

    campaign: CampaignFacts
    metric: str
    min_effect: float | None
    latency_only: bool
    baseline_experiment: str | None
    baseline_failure: str | None
    judged_at: tuple[datetime, ...]
    bests: tuple[BestMoment, ...]
    troubles: tuple[Moment, ...]
    disputes: tuple[Moment, ...]
    checks: tuple[Moment, ...]
    said: tuple[Said, ...]
    made_stale: tuple[Moment, ...]
    model_judged: int
    model_supported: int
    refused: int
    verification: VerificationView
    spent_usd: float | None
    ended_at: datetime | None


class StoryLine(View):
    """A sentence; `about` are the labels of the rows that its numbers come from, `event` the id of the event
    it tells, if it tells one."""

    text: str
    about: tuple[str, ...]
    event: int | None = None


class ChapterView(View):
    """A chapter with its lines; `more` things are left out of a short one."""

    title: str
    lines: tuple[StoryLine, ...]
    more: int = 0


class StoryView(View):
    """A campaign as a story."""

    campaign: str
    state: CampaignState
    whole: bool
    chapters: tuple[ChapterView, ...]

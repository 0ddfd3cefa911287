"""One campaign: objective, limits, budget, best, what is validated and settled, directives, its questions."""

from __future__ import annotations

from pydantic import Field
from sqlalchemy.orm import Session

from dashboard.page import Filters, Ground, Page, Request
from dashboard.pages.campaigns import CHANGED_BY, CampaignRow
from dashboard.tested import counted_tests
from db.labels import Noun
from db.models import Campaign
from knowledge.queries.answered.answers import campaign_answers
from knowledge.queries.answered.answers_view import ContrastView
from knowledge.queries.bests import bests
from knowledge.queries.campaigns import campaign_detail
from knowledge.queries.claims.calibration import CalibrationView, calibration
from knowledge.queries.claims.discovery import discovery_sentence, outside_sentence
from knowledge.queries.found.verification import VerificationView, verification
from knowledge.queries.lookup import labelled
from knowledge.queries.order.carried import CarriedView, carried_view
from knowledge.queries.standing import StandingView, standing
from knowledge.queries.story import campaign_story
from knowledge.queries.view import EffectView, View, effect_view
from knowledge.telling.answers_sentence import answer_sentence, instead_of
from knowledge.telling.story_parts import StoryView

MOST_TOLD = 300
"""Experiments of a campaign up to which its page tells the story and the verification unasked: both are read
from all of its verdicts, which takes a second of thousands."""


class CampaignFilters(Filters):
    """How much of the story; the address names the campaign."""

    story: bool = Field(
        default=False,
        description="All of the story, not only what fits on a screen; and at all, of a large campaign.",
    )


class ContrastRow(View):
    """A contrast of a question: what was claimed, what became of it."""

    id: str
    role: str
    claim: str
    hypothesis: str | None
    experiment: str | None
    outcome: str | None
    why_open: str | None
    instead: str = Field(description="Of what makes a confounded claim anew: what is fixed, and for which.")
    effect: EffectView | None


class QuestionView(View):
    """A question of the campaign with its answer in a sentence (`**` around words that lead)."""

    asks: str
    answer: str
    contrasts: tuple[ContrastRow, ...]


class CampaignPageView(CampaignRow):
    """A campaign as its page shows it."""

    standing: StandingView
    calibration: CalibrationView
    carried: CarriedView | None
    questions: tuple[QuestionView, ...]
    story: StoryView | None = Field(description="None of a large campaign, where it was not asked for.")
    verification: VerificationView | None = Field(description="None where the story is.")

    @property
    def may_be_false(self) -> tuple[str, ...]:
        """How many of the supported may be false, as the summary says it; empty where none is supported."""
        found = self.campaign.discovery
        said = () if found is None else (discovery_sentence(found), outside_sentence(found))
        return tuple(f"{each[:1].upper()}{each[1:]}." for each in said if each)

    @property
    def verified(self) -> str:
        """What fresh processes said, in a sentence; empty where there is nothing to say again."""
        found = self.verification
        return "" if found is None or not found.verdicts else f"{found.sentence}."


def read(session: Session, request: Request[CampaignFilters], ground: Ground) -> CampaignPageView:
    """Read the campaign that the address names; `UsageError` where there is none."""
    number = labelled(session, Noun.CAMPAIGN, request.path["label"])
    asks = session.get_one(Campaign, number).spec.get("questions")
    detail = campaign_detail(session, number, counted_tests)
    told = request.filters.story or detail.spent.experiments <= MOST_TOLD
    return CampaignPageView(
        campaign=detail,
        best=bests(session, [number]).get(number),
        standing=standing(session, number),
        calibration=calibration(session, number),
        carried=carried_view(session, number),
        questions=_questions(session, number) if asks else (),
        story=campaign_story(session, number, whole=request.filters.story) if told else None,
        verification=verification(session, number) if told else None,
    )


def _questions(session: Session, campaign_id: int) -> tuple[QuestionView, ...]:
    found = campaign_answers(session, campaign_id)
    return tuple(
        QuestionView(
            asks=each.asks,
            answer=answer_sentence(each.contrasts, found.contrasts),
            contrasts=tuple(_contrast(contrast) for contrast in each.contrasts),
        )
        for each in found.answers
    )


def _contrast(found: ContrastView) -> ContrastRow:
    return ContrastRow(
        id=found.id,
        role=str(found.role),
        claim=found.claim,
        hypothesis=found.hypothesis,
        experiment=found.experiment,
        outcome=None if found.outcome is None else found.outcome.value,
        why_open=found.why_open,
        instead=instead_of(found),
        effect=effect_view(found.effect, found.low, found.high, found.metric),
    )


def command(request: Request[CampaignFilters]) -> str:
    """The same on the command line."""
    return f"autoinfer show {request.path['label'].upper()}"


PAGE = Page(
    name="campaign",
    title="Campaign",
    path="/campaigns/{label}",
    filters=CampaignFilters,
    shows=CampaignPageView,
    read=read,
    command=command,
    kinds=CHANGED_BY,
)

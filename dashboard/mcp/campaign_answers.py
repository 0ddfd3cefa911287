"""Campaigns as the tools answer them: what each is and where it stands, and its story in parts."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field
from sqlalchemy.orm import Session

from agent.campaign.learning.outcome import campaign_outcome
from dashboard.mcp.answers import MOST_RELATED, Answer, Listed, listed
from dashboard.mcp.asking import tested_campaign
from dashboard.mcp.quoting import LONG, Quoted, maybe, quoted, told
from knowledge.queries.campaigns import CampaignView, list_campaigns
from knowledge.queries.facts import campaign_facts
from knowledge.telling.summary import summarize


class CampaignAnswer(Answer):
    """A campaign: what it makes faster, where it stands, and what it may spend."""

    id: str
    model: str
    target: str
    state: str
    stopped_because: Quoted | None
    objective: dict[str, object] = Field(description="The metric and the concurrency that it is about.")
    limits: dict[str, object] = Field(description="What the quality may lose at most.")
    budget: dict[str, object] = Field(description="What it may spend; times in seconds (`_s`).")
    hypotheses: dict[str, int] = Field(description="How many hypotheses, by state.")
    experiments: int
    experiment_s: float = Field(description="Seconds that its experiments took.")
    best_experiment: str | None
    awaiting_approval: tuple[str, ...] = Field(description="Hypotheses that wait for the user's approval.")
    directives: tuple[str, ...] = Field(description="How the user steers it, in sentences, oldest first.")


class SummaryPart(Answer):
    """One part of the story; its text names claims that others wrote."""

    title: str
    text: Quoted


class SummaryAnswer(Answer):
    """A campaign as a story, every number from the database."""

    campaign: str
    state: str
    headline: Quoted = Field(description="How it stands, with why it ended.")
    parts: tuple[SummaryPart, ...]
    stopped_because: Quoted | None
    go_on: str | None = Field(
        description="How the user goes on with it, where it ended before anything was judged or no process "
        "drives it."
    )


def campaigns(session: Session, limit: int, offset: int) -> Listed[CampaignAnswer]:
    """Campaigns, newest first."""
    page = list_campaigns(session, limit=limit, offset=offset, discovery=False)
    return listed([_campaign(each) for each in page.items], page.total, offset)


def _campaign(found: CampaignView) -> CampaignAnswer:
    return CampaignAnswer(
        id=found.id,
        model=found.model,
        target=found.target,
        state=found.state.value,
        stopped_because=maybe(found.stopped_because),
        objective=found.objective,
        limits=found.limits,
        budget=found.budget,
        hypotheses=found.hypotheses,
        experiments=found.spent.experiments,
        experiment_s=found.spent.experiment_s,
        best_experiment=found.best_experiment,
        awaiting_approval=found.awaiting[:MOST_RELATED],
        directives=tuple(f"{each.id} {each.kind.value}: {told(each.text)}" for each in found.directives)[
            -MOST_RELATED:
        ],
    )


def summary(session: Session, label: str | None) -> SummaryAnswer:
    """A campaign as a story."""
    campaign_id = tested_campaign(session, label)
    outcome = campaign_outcome(session, campaign_id)
    found = summarize(replace(campaign_facts(session, campaign_id), outcome=outcome))
    return SummaryAnswer(
        campaign=found.campaign,
        state=found.state.value,
        headline=quoted(found.headline, LONG),
        parts=tuple(
            SummaryPart(title=each.title, text=quoted(" | ".join((each.sentence, *each.lines)), LONG))
            for each in found.parts()
        ),
        stopped_because=maybe(found.stopped_because, LONG),
        go_on=found.go_on,
    )

"""A campaign's job on rented machines that waits for its price: for the user, or for room in a budget."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from agent.campaign.resources.devices import of_its_loop, of_its_queue
from db.labels import Noun, format_label
from db.models import Job, JobQuote, RemoteRun
from db.money import MICRO, covering
from db.states import JobState


@dataclass(frozen=True)
class HeldForPrice:
    """Why it waits, in a sentence. `asks`: the user's approval lets it go. `never`: it would have no room
    even when all that is in flight had cost nothing."""

    job_id: int
    why: str
    asks: bool
    never: bool

    @property
    def approve(self) -> str:
        """The command that lets it go, where that is the user's to say."""
        return f"autoinfer approve {format_label(Noun.JOB, self.job_id)}"


def held_for_price(session: Session, campaign_id: int, *, elsewhere: bool = False) -> HeldForPrice | None:
    """The first waiting job of the campaign's own loop that is held for its price, as the worker said last;
    None for none. `elsewhere`: of those that its queue sent to confirm something on another target."""
    return held_where(session, Job.campaign_id == campaign_id, of_its_queue() if elsewhere else of_its_loop())


def held_where(session: Session, *among: ColumnElement[bool]) -> HeldForPrice | None:
    """The first waiting job among these that is held for its price; None for none."""
    found = session.execute(
        select(JobQuote, Job.id, Job.campaign_id)
        .join(Job, Job.id == JobQuote.job_id)
        .where(Job.state == JobState.QUEUED, JobQuote.waits_because.is_not(None), *among)
        .order_by(Job.id)
        .limit(1)
    ).first()
    if found is None:
        return None
    quote, job_id, campaign_id = found
    standings = covering(session, campaign_id, quote.target)
    never = not standings or any(quote.bound_microusd > each.limit - each.spent for each in standings)
    return HeldForPrice(job_id, str(quote.waits_because), quote.needs_approval, never)


def usd_per_s(session: Session, campaign_id: int, target: str) -> float | None:
    """What a second of a target costs, by the quote of the campaign's newest run there; None where nothing of
    it was paid for."""
    query = (
        select(RemoteRun.expected_microusd, RemoteRun.expected_s)
        .where(RemoteRun.campaign_id == campaign_id, RemoteRun.target == target, RemoteRun.expected_s > 0)
        .order_by(RemoteRun.id.desc())
        .limit(1)
    )
    found = session.execute(query).first()
    return None if found is None else found[0] / MICRO / found[1]

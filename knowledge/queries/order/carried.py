"""How far what other campaigns found is believed in a campaign now, as its log told it last."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.event_kinds import EventKind
from db.events import of_kind
from db.models import Event
from knowledge.figures import counted, listed
from knowledge.queries.view import View

MOST_NAMED = 4
"""Campaigns that are named."""


class CarriedView(View):
    """`weight`, from 0 to 1, of `outcomes` of the other campaigns, each with a weight of its own, in what is
    expected of latency, after `judged` outcomes here; `findings` are the labels of what they bear on."""

    weight: float
    outcomes: int
    campaigns: dict[str, float]
    findings: tuple[str, ...]
    judged: int
    event_id: int

    @property
    def sentence(self) -> str:
        """What was carried over, and how far it is believed now."""
        named = [
            f"{label} {100 * weight:.0f} %" for label, weight in list(self.campaigns.items())[:MOST_NAMED]
        ]
        more = len(self.campaigns) - len(named)
        of = listed([*named, *([f"{more} more"] if more else [])])
        return (
            f"{counted(self.outcomes, 'outcome')} of other campaigns began its beliefs, and count "
            f"{100 * self.weight:.0f} % now ({of}). {self.meaning}"
        )

    @property
    def meaning(self) -> str:
        """What made that weight."""
        if not self.judged:
            return "Nothing measured here has tried them yet."
        tried = f"{counted(self.judged, 'outcome')} here"
        if self.weight < 0.5:  # what `agent.campaign.known.ruled_out` trusts no more
            return f"After {tried} they foretell worse than physics and this campaign alone."
        return f"After {tried} they foretell no worse than physics and this campaign alone."


def findings_carried(
    session: Session, campaign_ids: Collection[int] | None = None
) -> Mapping[int, tuple[tuple[str, ...], float]]:
    """The findings that campaigns, or these of them, began with, and the weight that all of it has there now,
    as each told it last; one statement."""
    own = Event.campaign_id + 0  # there are few of this kind, and most events are of some campaign
    newest = select(func.max(Event.id)).where(Event.kind == EventKind.CAMPAIGN_CARRIED.value).group_by(own)
    found = {}
    for campaign_id, data in session.execute(
        select(Event.campaign_id, Event.data).where(Event.id.in_(newest)).order_by(Event.campaign_id)
    ):
        if data and campaign_id is not None and (campaign_ids is None or campaign_id in campaign_ids):
            found[campaign_id] = tuple(data["findings"]), float(data["weight"])
    return found


def carried_view(session: Session, campaign_id: int) -> CarriedView | None:
    """The newest word of it; None where nothing was carried over."""
    row = session.scalars(
        select(Event)
        .where(of_kind(EventKind.CAMPAIGN_CARRIED, campaign_id))
        .order_by(Event.id.desc())
        .limit(1)
    ).first()
    if row is None or row.data is None:
        return None
    return CarriedView(event_id=row.id, **row.data)

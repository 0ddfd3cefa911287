"""Lines of the event log as they are shown."""

from __future__ import annotations

from datetime import datetime

from db.labels import Noun, format_label
from db.models import Event
from db.models.base import JsonObject
from knowledge.queries.view import View


class EventView(View):
    """One line of the running log."""

    id: int
    at: datetime
    kind: str
    text: str
    subject: str | None
    campaign: str | None
    data: JsonObject | None

    @property
    def answer(self) -> int | None:
        """The language model's answer that it tells of, by number; None where it tells of none."""
        found = (self.data or {}).get("answer")
        return found if isinstance(found, int) else None


def event_view(event: Event) -> EventView:
    """Return the view of a logged event."""
    return EventView(
        id=event.id,
        at=event.at,
        kind=event.kind,
        text=event.text,
        subject=event.subject,
        campaign=None if event.campaign_id is None else format_label(Noun.CAMPAIGN, event.campaign_id),
        data=event.data,
    )

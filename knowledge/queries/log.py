"""Lines of the event log as they are shown."""

from __future__ import annotations

from datetime import datetime

from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Event
from db.models.base import JsonObject
from knowledge.claim_scope import claim_in_short
from knowledge.machines import machines_named
from knowledge.queries.view import View

MOST_MOVES = 3
"""Moves of a ranking that are told with it; all of them stand in the queue."""


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
    def brief(self) -> str:
        """Its text as a list has it: machines by their names, and of a finding that an older version told
        with its whole scope, which is on the finding's page, without that."""
        if self.kind != EventKind.FINDING_ADDED.value:
            return machines_named(self.text)
        return claim_in_short(self.text, (self.data or {}).get("rule"))

    @property
    def answer(self) -> int | None:
        """The language model's answer that it tells of, by number; None where it tells of none."""
        found = (self.data or {}).get("answer")
        return found if isinstance(found, int) else None

    @property
    def moves(self) -> tuple[str, ...]:
        """The first moves of a ranking, each with its reason; none of any other event."""
        told = (self.data or {}).get("told") if self.kind == EventKind.QUEUE_RANKED.value else None
        return tuple(map(str, told[:MOST_MOVES])) if isinstance(told, list) else ()


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

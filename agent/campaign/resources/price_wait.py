"""Waiting for the price of a job on rented machines: for the user's word, or for room in a budget."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy.orm import Session

from agent.campaign.resources.paid import HeldForPrice, held_for_price
from agent.campaign.resources.spent_time import SpentTime
from agent.campaign.resources.waiting import give_up
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.session import Database
from db.states import CampaignState


class PriceWait:
    """What the loop does while a job of its campaign is held for its price.

    `writing` opens a transaction that holds the campaign's lease, `stop` ends the campaign for a reason and
    gives it back. Where nobody is `attended` to approve, the campaign ends instead of waiting. `no_money` is
    why it ends as soon as nothing of it is out, empty where it goes on.
    """

    def __init__(
        self,
        database: Database,
        campaign_id: int,
        time: SpentTime,
        writing: Callable[[], AbstractContextManager[Session]],
        stop: Callable[[str], str],
        *,
        attended: bool,
    ) -> None:
        self._database = database
        self._campaign_id = campaign_id
        self._label = format_label(Noun.CAMPAIGN, campaign_id)
        self._time = time
        self._writing = writing
        self._stop = stop
        self._attended = attended
        self.no_money = ""

    def look(self, state: CampaignState) -> str | None:
        """Wait for the approval of a price, or end where nobody is there to give it, or no budget will have
        room: then the job is taken back, and the campaign ends when that is learnt."""
        with self._database.read() as session:
            held = held_for_price(session, self._campaign_id)
        if held is None or not (held.asks or held.never):
            self._time.go_on()
            return None
        if held.asks:
            return self.wait(held)
        if state is not CampaignState.RUNNING:
            return None
        why = held.why.rstrip(".")
        resume = f"autoinfer run --resume {self._label} --budget-usd USD"
        self.no_money = f"no budget has room for the next job ({why}); go on with more: {resume}"
        with self._writing() as session:
            give_up(session, [held.job_id], held.why)
        return None

    def wait(self, held: HeldForPrice) -> str | None:
        """Say once what waits, and spend no time on it; the reason to end where nobody may approve it."""
        if self._time.waits:
            return None
        text = f"{held.why} Approve with: {held.approve}"
        if not self._attended:
            return self._stop(f"{text}, then go on with autoinfer run --resume {self._label}")
        with self._writing() as session:
            self._time.count(session, self._campaign_id)
            events.append(session, EventKind.CAMPAIGN_WAITS, text, self._label, self._campaign_id)
        self._time.waits = True
        return None

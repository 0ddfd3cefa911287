"""The loop's steps for other targets: what it learns from a confirmation, sends next, and takes back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy.orm import Session

from agent.campaign.decision.desk import Desk
from agent.campaign.glance import Seen
from agent.campaign.rerun.confirm_queue import learn_there, look_at, overdue_there, send
from agent.campaign.rerun.confirming import choose_there
from agent.campaign.resources.paid import HeldForPrice, held_for_price
from agent.campaign.resources.waiting import give_up
from db.session import Database
from db.states import CampaignState
from experiments.kill_points import KillPoint, reached


class Confirmations:
    """Each other target has one confirmation at a time, and takes the first of the queue that it may run.

    `writing` opens a transaction that holds the campaign's lease.
    """

    def __init__(
        self, database: Database, campaign_id: int, writing: Callable[[], AbstractContextManager[Session]]
    ) -> None:
        self._database = database
        self._campaign_id = campaign_id
        self._writing = writing

    def learn(self, experiment_id: int) -> None:
        """Conclude from one that has ended."""
        with self._writing() as session:
            learn_there(session, experiment_id)
            reached(KillPoint.BEFORE_LEARNT)

    def send(self, desk: Desk, seen: Seen, left_s: float) -> bool:
        """Give every other target that is free the next confirmation; whether any got one."""
        sent = False
        for device in seen.free_there:
            place = choose_there(desk, device, left_s)
            if place is None:
                continue
            queued = next(each for each in desk.facts.queue if each.id == place.hypothesis_id)
            with self._database.read() as session:
                asked = look_at(session, queued)
            with self._writing() as session:
                sent = send(session, queued, place, asked) is not None or sent
            reached(KillPoint.AFTER_DISPATCH)
        return sent

    def look_at_the_price(self, seen: Seen) -> HeldForPrice | None:
        """Take back what no budget will have room for; gives what waits for the user's approval."""
        with self._database.read() as session:
            held = held_for_price(session, self._campaign_id, elsewhere=True)
        if held is None or held.asks:
            return held
        if held.never and seen.state is CampaignState.RUNNING:
            with self._writing() as session:
                give_up(session, [held.job_id], held.why)
        return None

    def take_back(self, why: str) -> None:
        """Take back what waits and nobody runs yet, because the campaign ends."""
        with self._database.read() as session:
            jobs = overdue_there(session, self._campaign_id)
        if jobs:
            with self._writing() as session:
                give_up(session, jobs, why)

"""What the loop does about the jobs of its campaign that are out: their workers, their prices, their end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy.orm import Session

from agent.campaign.confirmations import Confirmations
from agent.campaign.glance import Seen
from agent.campaign.resources.price_wait import PriceWait
from agent.campaign.resources.spent_time import SpentTime
from agent.campaign.resources.waiting import (
    end_overrunning,
    give_up_at_its_end,
    nobody_takes,
    overdue,
    overrunning,
    to_start_one,
)
from agent.campaign.resources.worker_process import Workers
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.session import Database
from db.states import CampaignState, JobState


class JobsOut:
    """Looks after them for one campaign, between two looks of its loop.

    `writing` opens a transaction that holds the campaign's lease. `workers` are the loop's own; without them
    those that were started elsewhere take the jobs. `elsewhere` are its jobs on other targets.
    """

    def __init__(
        self,
        database: Database,
        campaign_id: int,
        time: SpentTime,
        writing: Callable[[], AbstractContextManager[Session]],
        elsewhere: Confirmations,
        price: PriceWait,
        workers: Workers | None,
    ) -> None:
        self._database = database
        self._campaign_id = campaign_id
        self._time = time
        self._writing = writing
        self._elsewhere = elsewhere
        self._price = price
        self._workers = workers
        self._told_of_nobody = False

    def keep_workers(self, seen: Seen) -> None:
        """Start the workers that died again, and say so."""
        if self._workers is None:
            return
        for device in self._workers.keep_alive((*seen.devices.usable, *seen.elsewhere)):
            several = len(seen.devices.every) + len(seen.elsewhere) > 1
            which = f"The worker of {device}" if several else "The worker"
            self._tell(EventKind.WORKER_LOST, f"{which} died and was started again")

    def look(self, seen: Seen, left_s: float) -> None:
        """Say once when nobody takes the campaign's jobs; give them up when the budget is spent (`left_s` of
        it is left), or when the campaign is to end and nobody will take them.

        A test that runs is finished, because its verdict is near, as long as it overruns the budget by no
        more than `overrun_s`; then it ends with what it measured. What runs on rented machines ends at the
        limit of its job. Half a baseline is worth nothing.
        """
        spent = seen.state == CampaignState.RUNNING and left_s <= 0
        stopping = seen.state == CampaignState.STOPPING
        ended = "was stopped" if stopping else "had spent its budget"
        if (spent or stopping) and seen.out_there:
            self._elsewhere.take_back(f"The campaign {ended} before anything ran there.")
        ask = self._workers is None and (stopping or not self._told_of_nobody)
        if not (ask or spent):
            return
        with self._database.read() as session:
            device = nobody_takes(session, self._campaign_id) if ask else None
            unserved = device or (nobody_takes(session, self._campaign_id, elsewhere=True) if ask else None)
            running_too = spent and not seen.has_baseline
            give = spent or (stopping and device is not None)
            jobs = overdue(session, self._campaign_id, running_too=running_too) if give else []
            may_end = spent and not running_too and not seen.is_paid
            late = overrunning(session, self._campaign_id, left_s, seen.wall_s) if may_end else []
        if unserved is not None and not self._told_of_nobody:
            self._told_of_nobody = True
            self._tell(
                EventKind.WORKER_MISSING,
                f"No worker takes jobs for {unserved}; start one: {to_start_one(unserved)}",
            )
        if jobs or late:
            with self._writing() as session:
                give_up_at_its_end(session, jobs, ended)
                end_overrunning(session, late, seen.wall_s)

    def look_at_the_prices(self, seen: Seen, *, rests: bool) -> str | None:
        """Look at what is held for its price; the reason to end where nobody may approve it.

        On another target nothing waits for it as long as there is something else to do, until the loop
        `rests`.
        """
        there = self._elsewhere.look_at_the_price(seen) if seen.out_there else None
        if seen.is_paid and seen.flying:
            return self._price.look(seen.state)
        if seen.flying or not rests:
            return None
        if there is None or any(state is JobState.RUNNING for state in seen.out_there.values()):
            self._time.go_on()
            return None
        return self._price.wait(there)

    def _tell(self, kind: EventKind, text: str) -> None:
        with self._writing() as session:
            label = format_label(Noun.CAMPAIGN, self._campaign_id)
            events.append(session, kind, text, label, self._campaign_id)

"""A loop's hold on what it drives, a campaign or a series: the lease under which it alone writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from configs.errors import LeaseLost
from db import campaign_lease
from db.campaign_owner import free_from_the_dead, new_owner
from db.labels import Noun, format_label
from db.models import Campaign
from db.session import Database

RENEWALS = 5
"""How often a lease is renewed in the time for which it is taken."""


class Hold:
    """The lease of one loop, for `lease_s` seconds at a time; `clock` is monotonic, seconds.

    A loop takes it, keeps it as it goes round, writes under it, and releases it at its end. One that is
    killed is followed by another as soon as its lease has run out, or as it is seen to be dead.
    """

    def __init__(
        self, database: Database, campaign_id: int, lease_s: float, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._campaign_id = campaign_id
        self._lease_s = lease_s
        self._clock = clock
        self._owner = new_owner()
        self._renewed_at = 0.0

    def take(self, session: Session) -> bool:
        """Take the lease within a write transaction; false while another loop has it."""
        free_from_the_dead(session, session.get_one(Campaign, self._campaign_id))
        if not campaign_lease.take(session, self._campaign_id, self._owner, self._lease_s):
            return False
        self._renewed_at = self._clock()
        return True

    def keep(self, beside: Callable[[Session], None]) -> None:
        """Renew the lease where it is time to, and do what is to be done `beside` in the same transaction.

        Raises `LeaseLost` when another loop took the campaign over.
        """
        if self._clock() - self._renewed_at < self._lease_s / RENEWALS:
            return
        with self._database.write() as session:
            if not campaign_lease.renew(session, self._campaign_id, self._owner, self._lease_s):
                raise LeaseLost(
                    f"{format_label(Noun.CAMPAIGN, self._campaign_id)} was taken over by another process.",
                    "Follow it with: autoinfer log --follow",
                )
            beside(session)
        self._renewed_at = self._clock()

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Give a write transaction; it rolls back, and raises `LeaseLost`, unless this loop has the lease."""
        with self._database.write() as session:
            campaign_lease.hold(session, self._campaign_id, self._owner)
            yield session

    def release(self, session: Session) -> None:
        """Give the lease back within a write transaction, so that the next loop need not wait."""
        campaign_lease.release(session, self._campaign_id, self._owner)

"""Who may use the dashboard, by the address that it is served on."""

from __future__ import annotations

import hmac
import ipaddress
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from db.access_tokens import digest_of, live_digests
from db.session import Database

STORED_FOR_S = 1.0
"""Seconds that digests of the database are held for: a token that was revoked opens nothing after them."""


def nothing() -> Collection[str]:
    """The digests of no token."""
    return ()


@dataclass(frozen=True)
class Access:
    """Who may ask: with `asks` whoever has a token, else anybody on this machine, by a loopback name.

    `digests` gives those of the tokens that hold now (`db.access_tokens`), and may look into a database.
    """

    asks: bool = False
    digests: Callable[[], Collection[str]] = nothing

    def allows(self, given: str) -> bool:
        """Whether this is one of the tokens.

        Digests are compared, each with each and in constant time: how long it takes says nothing of any.
        """
        digest = digest_of(given)
        same = [hmac.compare_digest(digest, each) for each in self.digests()]
        return any(same)


def with_token(token: str) -> Access:
    """Access by this one token."""
    held = (digest_of(token),)
    return Access(asks=True, digests=lambda: held)


class StoredDigests:
    """The digests in the database, read again once older than `STORED_FOR_S`, and one more if given."""

    def __init__(
        self, database: Database, own: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database, self._clock = database, clock
        self._own = frozenset({own} if own else ())
        self._read_at: float | None = None
        self._held: frozenset[str] = frozenset()

    def __call__(self) -> frozenset[str]:
        """The digests; raises as `Database.read`."""
        at = self._clock()
        if self._read_at is None or at - self._read_at >= STORED_FOR_S:
            with self._database.read() as session:
                self._held = live_digests(session) | self._own
            self._read_at = at
        return self._held


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that is bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""Who may use the dashboard, by the address that it is served on."""

from __future__ import annotations

import hmac
import ipaddress
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from db.access_tokens import digest_of, live_names
from db.session import Database

STORED_FOR_S = 1.0
"""Seconds that digests of the database are held for: a token that was revoked opens nothing after them."""


def nothing() -> Mapping[str, str | None]:
    """No token."""
    return {}


@dataclass(frozen=True)
class Holder:
    """Who has a token: by the name that the user gave it, None where it has none."""

    name: str | None


@dataclass(frozen=True)
class Access:
    """Who may ask: with `asks` whoever has a token, else anybody on this machine, by a loopback name.

    `tokens` gives those that hold now, the name of each by its digest (`db.access_tokens`), None for one that
    the user gave no name; it may look into a database.
    """

    asks: bool = False
    tokens: Callable[[], Mapping[str, str | None]] = nothing

    def allows(self, given: str) -> bool:
        """Whether this is one of the tokens."""
        return self.holder(given) is not None

    def holder(self, given: str) -> Holder | None:
        """Whose token this is; None where it is none that holds.

        Digests are compared, each with each and in constant time: how long it takes says nothing of any.
        """
        digest = digest_of(given)
        same = [Holder(name) for each, name in self.tokens().items() if hmac.compare_digest(digest, each)]
        return same[0] if same else None


def with_token(token: str) -> Access:
    """Access by this one token."""
    held = {digest_of(token): None}
    return Access(asks=True, tokens=lambda: held)


class StoredTokens:
    """The tokens in the database, read again once older than `STORED_FOR_S`, and one more, by its digest and
    without a name, if given."""

    def __init__(
        self, database: Database, own: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database, self._clock = database, clock
        self._own: dict[str, str | None] = {own: None} if own else {}
        self._read_at: float | None = None
        self._held: Mapping[str, str | None] = {}

    def __call__(self) -> Mapping[str, str | None]:
        """Their names by their digests; raises as `Database.read`."""
        at = self._clock()
        if self._read_at is None or at - self._read_at >= STORED_FOR_S:
            with self._database.read() as session:
                self._held = {**self._own, **live_names(session)}
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

"""Tokens to the dashboard: made, listed, revoked. Only their digests are stored.

A token is 256 random bits, so that a plain SHA-256 can't be turned back by trying: slow hashes are for what
people choose.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.errors import UsageError
from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.models.access import AccessToken

TOKEN_BYTES = 32
"""Random bytes of a token; as text a third more characters."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def new_token() -> str:
    """A token as text that may stand in an address."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def digest_of(token: str) -> str:
    """What is kept of a token: its SHA-256 in hexadecimal."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def give(session: Session, name: str) -> str:
    """Make a token under this name and return it: it can't be shown again.

    Raises `UsageError` for a name that is taken, by one that was revoked too, or is none.
    """
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} is no name for a token.",
            "Take up to 64 letters, digits, dots, dashes and underscores, such as laptop.",
        )
    if session.scalar(select(AccessToken.id).where(AccessToken.name == name)) is not None:
        raise UsageError(
            f"There is a token {name!r} already, or was one.",
            "Take another name; they are listed by: autoinfer token list",
        )
    token = new_token()
    session.add(AccessToken(name=name, digest=digest_of(token)))
    session.flush()
    events.append(session, EventKind.ACCESS_GIVEN, f"The token {name} to the dashboard was made.")
    return token


def revoke(session: Session, name: str) -> datetime:
    """Let the token of this name open nothing any more; returns since when, at a second call the first time.

    Raises `UsageError` where there is none.
    """
    found = session.scalar(select(AccessToken).where(AccessToken.name == name).with_for_update())
    if found is None:
        raise UsageError(f"There is no token {name!r}.", "They are listed by: autoinfer token list")
    if found.revoked_at is None:
        at = session.scalar(select(now()))
        assert at is not None
        found.revoked_at = at
        session.flush()
        events.append(session, EventKind.ACCESS_REVOKED, f"The token {name} to the dashboard was revoked.")
    return found.revoked_at


def all_tokens(session: Session) -> list[AccessToken]:
    """Every token there is or was, the oldest first."""
    return list(session.scalars(select(AccessToken).order_by(AccessToken.id)))


def live_names(session: Session) -> dict[str, str]:
    """The names of the tokens that open the dashboard, by their digests."""
    query = select(AccessToken.digest, AccessToken.name).where(AccessToken.revoked_at.is_(None))
    return {row.digest: row.name for row in session.execute(query)}

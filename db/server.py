"""How a PostgreSQL server is talked to: one writer at a time, and nobody waits long for a host that is gone.

A host that is frozen or cut off in the middle of a transaction holds the write lock. The server ends such a
session by itself: after `IDLE_IN_TRANSACTION_S` without a statement, or when the network has been silent for
`SILENT_S`; both are shorter than others wait for the lock. The client's side gives up a connection that is as
silent, and the next transaction opens another (PostgreSQL's documentation, 20.3.2, 20.11 and 34.1.2).
"""

from __future__ import annotations

from sqlalchemy import URL, func, select

_LOCK_KEY = 0x6175_746F
"""Key of the advisory lock of whoever writes: the bytes of "auto"."""

WRITE_LOCK = select(func.pg_advisory_xact_lock(_LOCK_KEY))
"""Takes the write lock until the transaction ends."""

CONNECT_S = 10
"""Seconds a server has to take a connection."""

IDLE_IN_TRANSACTION_S = 10
"""Seconds between two statements of a transaction; they are short, and work is done outside them."""

SILENT_S = 15
"""Seconds that what was sent may go unacknowledged, at either end, until the connection counts as cut."""

_KEEPALIVE_S = 5
"""Seconds of silence until a connection is asked whether it still is one."""

_KEEPALIVES = 3
"""Questions without an answer after which it is not."""

_MS_PER_S = 1000


def connect_arguments(url: URL, lock_timeout_s: float) -> dict[str, object]:
    """What libpq is told about a connection to `url`; what the URL itself asks for goes before.

    `lock_timeout_s` is how long a transaction waits for the write lock.
    """
    at_server = {
        "lock_timeout": round(lock_timeout_s * _MS_PER_S),
        "idle_in_transaction_session_timeout": round(IDLE_IN_TRANSACTION_S * _MS_PER_S),
        "tcp_user_timeout": SILENT_S * _MS_PER_S,
        "tcp_keepalives_idle": _KEEPALIVE_S,
        "tcp_keepalives_interval": _KEEPALIVE_S,
        "tcp_keepalives_count": _KEEPALIVES,
    }
    asked = url.query.get("options", "")
    options = [*(f"-c {name}={value}" for name, value in at_server.items())]
    options += [asked] if isinstance(asked, str) else list(asked)
    here: dict[str, object] = {
        "application_name": "autoinfer",
        "connect_timeout": CONNECT_S,
        "tcp_user_timeout": SILENT_S * _MS_PER_S,
        "keepalives_idle": _KEEPALIVE_S,
        "keepalives_interval": _KEEPALIVE_S,
        "keepalives_count": _KEEPALIVES,
    }
    given = {name: value for name, value in here.items() if name not in url.query}
    return {**given, "options": " ".join(options).strip()}

"""Tokens to the dashboard: by their digests alone, and an event for whatever is done to them."""

import re
import sqlite3
from pathlib import Path

import pytest

from configs.errors import UsageError
from db import events
from db.access_tokens import all_tokens, digest_of, give, live_names, revoke
from db.session import Database


def test_a_token_is_nowhere_in_the_database(database: Database, url: str) -> None:
    with database.write() as session:
        token = give(session, "laptop")
    with database.read() as session:
        assert live_names(session) == {digest_of(token): "laptop"}
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token)
    with sqlite3.connect(url.removeprefix("sqlite:///")) as raw:
        dumped = "\n".join(raw.iterdump())
    assert "laptop" in dumped
    assert token not in dumped
    for file in Path(url.removeprefix("sqlite:///")).parent.iterdir():
        assert token.encode() not in file.read_bytes()


def test_a_token_that_was_revoked_stays_by_name_and_opens_nothing(database: Database) -> None:
    with database.write() as session:
        give(session, "laptop")
        kept = give(session, "desk")
    with database.write() as session:
        first = revoke(session, "laptop")
    with database.write() as session:
        assert revoke(session, "laptop") == first, "a second time changes nothing"
        with pytest.raises(UsageError, match="There is a token 'laptop' already, or was one"):
            give(session, "laptop")
    with database.read() as session:
        assert live_names(session) == {digest_of(kept): "desk"}
        assert [(each.name, each.revoked_at) for each in all_tokens(session)] == [
            ("laptop", first), ("desk", None)
        ]  # fmt: skip
        told = [(each.kind, each.text) for each in events.latest(session, 10)]
    assert told == [
        ("access.given", "The token laptop to the dashboard was made."),
        ("access.given", "The token desk to the dashboard was made."),
        ("access.revoked", "The token laptop to the dashboard was revoked."),
    ]


@pytest.mark.parametrize("name", ["", " ", "-x", "a b", "a/b", "x" * 65, "ü", "a\n"])
def test_what_is_no_name_is_refused(database: Database, name: str) -> None:
    with database.write() as session, pytest.raises(UsageError, match="is no name for a token"):
        give(session, name)


def test_a_name_that_nobody_has_cannot_be_revoked(database: Database) -> None:
    with database.write() as session, pytest.raises(UsageError, match="There is no token 'desk'"):
        revoke(session, "desk")

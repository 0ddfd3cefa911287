"""`autoinfer token`, by the command: shown once, listed by name, revoked for good."""

from __future__ import annotations

import re

from tests.integration.cli.command import Autoinfer


def test_a_token_is_shown_once_and_never_again(with_history: Autoinfer) -> None:
    assert (
        with_history("token list").out == "There is no token yet; make one with: autoinfer token new NAME\n"
    )
    made = with_history("token new laptop")
    assert (made.code, made.err) == (0, "")
    token = made.out.strip()
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token)
    for line in (
        "token list",
        "token list --json",
        "log --limit 5",
        "log --json",
        "token new laptop",
        "config show",
    ):
        told = with_history(line)
        assert token not in told.out + told.err, line


def test_it_is_listed_with_when_it_was_made_and_revoked(with_history: Autoinfer) -> None:
    assert set(with_history("token new laptop --json").json()) == {"name", "token"}
    (item,) = with_history("token list --json").json()["items"]
    assert (item["name"], item["revoked_at"]) == ("laptop", None)
    assert re.search(r"laptop +20[0-9-]{8} [0-9:]{8} UTC\S* +—", with_history("token list").out)
    revoked = with_history("token revoke laptop --json").json()
    (item,) = with_history("token list --json").json()["items"]
    assert item["revoked_at"] == revoked["revoked_at"] >= item["created_at"]
    assert "—" not in with_history("token list").out


def test_what_can_not_be_is_refused_in_a_sentence(with_history: Autoinfer) -> None:
    for line, said in (
        ("token revoke laptop", "There is no token 'laptop'."),
        ("token new 'a b'", "'a b' is no name for a token."),
    ):
        done = with_history(line)
        assert (done.code, done.out) == (2, "")
        assert said in done.err

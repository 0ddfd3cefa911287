"""What a command says where something paid may still run that no worker looks after."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from db.session import Database

_TOLD = "cli.console.still_paid"
"""Key among what the commands of a process share."""

_TELL_IT_THEMSELVES = frozenset({"stop", "worker", "summary", "doctor"})
"""Commands that end such runs, go on with them, or have a line for them."""


def tell_still_paid(ctx: typer.Context, database: Database) -> None:
    """Say so on standard error, once in a process; nothing where JSON was asked for, whose reader asks
    `autoinfer summary --json`."""
    shared = ctx.find_root().meta
    if shared.get(_TOLD) or ctx.info_name in _TELL_IT_THEMSELVES or ctx.params.get("as_json"):
        return
    shared[_TOLD] = True
    with database.read() as session:
        found = still_paid(session)
    if found is not None:
        print(f"autoinfer: {found}", file=sys.stderr)


def still_paid(session: Session) -> str | None:
    """What may still cost money with nobody to look after it, and what to do; None where nothing does."""
    from knowledge.queries.spent.paid_runs import END, unattended

    found = unattended(session)
    if found is None:
        return None
    which = "it" if found.runs == 1 else "them"
    return (
        f"{found.sentence} End {which} with: {END}; or go on with {which}: autoinfer worker --target TARGET"
    )

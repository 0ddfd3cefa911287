"""`autoinfer db`: the database itself."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.console.options import Json

app = typer.Typer(rich_markup_mode=None, add_completion=False, help="Bring the database up to date.")


@app.callback()
def database() -> None:
    """Bring the database up to date."""


@app.command()
def upgrade(
    ctx: typer.Context,
    create: Annotated[bool, typer.Option("--create", help="Make it where there is none yet.")] = False,
    as_json: Json = False,
) -> None:
    """Bring a database that an older version wrote up to date; one that is, stays as it is."""
    from cli.console.opening import database_of
    from cli.console.output import print_json, say
    from configs.errors import DatabaseMissing, DatabaseTooOld
    from db.schema import HEAD_REVISION

    done = "is already"
    try:
        with database_of(ctx) as database:
            shown = database.shown
    except DatabaseTooOld:
        with database_of(ctx, upgrade=True) as database:
            shown, done = database.shown, "was brought"
    except DatabaseMissing:
        if not create:
            raise
        with database_of(ctx, create=True) as database:
            shown, done = database.shown, "was made"
    if as_json:
        print_json(
            {
                "database": shown,
                "revision": HEAD_REVISION,
                "upgraded": done == "was brought",
                "created": done == "was made",
            }
        )
        return
    say(f"{shown} {done} {'' if done == 'was made' else 'up to date '}(revision {HEAD_REVISION}).")

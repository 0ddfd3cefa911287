"""`autoinfer db`: the database itself."""

from __future__ import annotations

import typer

from cli.options import Json

app = typer.Typer(rich_markup_mode=None, add_completion=False, help="Bring the database up to date.")


@app.callback()
def database() -> None:
    """Bring the database up to date."""


@app.command()
def upgrade(ctx: typer.Context, as_json: Json = False) -> None:
    """Bring a database that an older version wrote up to date; one that is, stays as it is."""
    from cli.opening import database_of
    from cli.output import print_json, say
    from configs.errors import DatabaseTooOld
    from db.schema import HEAD_REVISION

    try:
        with database_of(ctx) as database:
            shown, changed = database.shown, False
    except DatabaseTooOld:
        with database_of(ctx, upgrade=True) as database:
            shown, changed = database.shown, True
    if as_json:
        print_json({"database": shown, "revision": HEAD_REVISION, "upgraded": changed})
        return
    say(f"{shown} {'was brought' if changed else 'is already'} up to date (revision {HEAD_REVISION}).")

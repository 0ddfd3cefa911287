"""`autoinfer token`: who may use the dashboard from another machine."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.console.options import Json

app = typer.Typer(
    rich_markup_mode=None, add_completion=False, help="Make, list or revoke tokens to the dashboard."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="What the token is called, such as laptop.")]


@app.command()
def new(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Make a token and print it: this once, because only its digest is stored."""
    from cli.console.opening import writing
    from cli.console.output import print_json, say
    from db.access_tokens import give

    with writing(ctx) as session:
        token = give(session, name)
    if as_json:
        print_json({"name": name, "token": token})
        return
    say(token)


@app.command("list")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    """The tokens there are and were, by name."""
    from cli.console.opening import reading
    from cli.console.output import console, print_json, say, table, when
    from db.access_tokens import all_tokens

    with reading(ctx) as session:
        found = all_tokens(session)
    if as_json:
        print_json(
            {
                "items": [
                    {
                        "name": each.name,
                        "created_at": each.created_at.isoformat(),
                        "revoked_at": None if each.revoked_at is None else each.revoked_at.isoformat(),
                    }
                    for each in found
                ]
            }
        )
        return
    if not found:
        say("There is no token yet; make one with: autoinfer token new NAME")
        return
    rows = [
        (
            each.name,
            when(each.created_at),
            when(each.revoked_at),
        )
        for each in found
    ]
    console().print(table(("name", "made", "revoked"), rows, wide=("name",)))


@app.command()
def revoke(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Let a token open nothing any more, from a second later on; its name stays taken."""
    from cli.console.opening import writing
    from cli.console.output import print_json, say
    from db.access_tokens import revoke as revoke_token

    with writing(ctx) as session:
        revoked_at = revoke_token(session, name)
    if as_json:
        print_json({"name": name, "revoked_at": revoked_at.isoformat()})
        return
    say(f"The token {name} opens nothing any more.")

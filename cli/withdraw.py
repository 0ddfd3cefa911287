"""`autoinfer withdraw`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import Json


def withdraw(
    ctx: typer.Context,
    hypothesis: Annotated[str, typer.Argument(metavar="H-ID", help="The hypothesis, such as H-021.")],
    why: Annotated[
        str, typer.Option("--why", metavar="TEXT", help="The reason, kept with it.")
    ] = "by the user",
    as_json: Json = False,
) -> None:
    """Take a hypothesis that waits out of the queue for good."""
    from cli.opening import writing
    from cli.output import print_json, say
    from db.labels import Noun, format_label
    from knowledge.queries.lookup import labelled
    from knowledge.steering import withdraw as take_out

    with writing(ctx) as session:
        found = take_out(session, labelled(session, Noun.HYPOTHESIS, hypothesis), why)
        label, state = format_label(Noun.HYPOTHESIS, found.id), found.state.value
    if as_json:
        print_json({"hypothesis": label, "state": state, "reason": why})
        return
    say(f"{label} is withdrawn: {why}.")

"""`autoinfer move`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.console.options import Json


def move(
    ctx: typer.Context,
    hypothesis: Annotated[str, typer.Argument(metavar="H-ID", help="The hypothesis, such as H-021.")],
    to: Annotated[
        int | None, typer.Option("--to", metavar="PLACE", help="The place it is put at; 1 is the first.")
    ] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Let it go back to the place that its score gives it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Put one hypothesis at a place of the queue, until it is tested."""
    from cli.console.opening import writing
    from cli.console.output import print_json, say
    from configs.errors import UsageError
    from db.labels import Noun, format_label
    from knowledge.acts.steering import move as put_at
    from knowledge.acts.steering import unmove
    from knowledge.queries.lookup import labelled

    if (to is None) == (not clear):
        raise UsageError(
            "Where to? autoinfer move takes either a place or --clear.",
            f"Write: autoinfer move {hypothesis} --to 2",
        )
    with writing(ctx) as session:
        number = labelled(session, Noun.HYPOTHESIS, hypothesis)
        found = unmove(session, number) if to is None else put_at(session, number, to)
        label, claim = format_label(Noun.HYPOTHESIS, found.id), found.claim
    if as_json:
        print_json({"hypothesis": label, "place": to})
        return
    where = "goes where its score puts it" if to is None else f"is put at place {to}"
    say(f"{label} {where} when the queue is ranked next: {claim}")

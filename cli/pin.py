"""`autoinfer pin`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.console.options import Json


def pin(
    ctx: typer.Context,
    hypothesis: Annotated[str, typer.Argument(metavar="H-ID", help="The hypothesis, such as H-021.")],
    clear: Annotated[bool, typer.Option("--clear", help="Take the pin off again.")] = False,
    as_json: Json = False,
) -> None:
    """Put one hypothesis first, until it is tested."""
    from cli.console.opening import writing
    from cli.console.output import print_json, say
    from db.labels import Noun, format_label
    from knowledge.acts.steering import pin as put_first
    from knowledge.acts.steering import unpin
    from knowledge.queries.lookup import labelled

    with writing(ctx) as session:
        number = labelled(session, Noun.HYPOTHESIS, hypothesis)
        found = unpin(session, number) if clear else put_first(session, number)
        label, claim, pinned = format_label(Noun.HYPOTHESIS, found.id), found.claim, found.pinned
    if as_json:
        print_json({"hypothesis": label, "pinned": pinned})
        return
    say(f"{label} is {'first in the queue' if pinned else 'no longer pinned'}: {claim}")

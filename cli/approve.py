"""`autoinfer approve`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import Json


def approve(
    ctx: typer.Context,
    hypotheses: Annotated[
        list[str], typer.Argument(metavar="H-ID...", help="The hypotheses, such as H-021 H-022.")
    ],
    up_to: Annotated[
        str | None,
        typer.Option(
            "--up-to",
            metavar="TIME",
            help="Only for as long as it is expected to take no more; what its quote says if not given.",
        ),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take the approval back again.")] = False,
    as_json: Json = False,
) -> None:
    """Let what waits for your approval be tested when its turn comes: all that are named, or none."""
    from cli.opening import writing
    from cli.output import print_json, say
    from configs.errors import UsageError
    from configs.quantities import parse_duration_s
    from db.labels import Noun
    from knowledge import approving
    from knowledge.approvals import approval_of
    from knowledge.directives import hypothesis_label
    from knowledge.queries.lookup import labelled

    if clear and up_to is not None:
        raise UsageError("An approval is taken back whole, so --up-to has no meaning beside --clear.")
    up_to_s = None if up_to is None else parse_duration_s(up_to)
    done = []
    with writing(ctx) as session:
        for given in hypotheses:
            number = labelled(session, Noun.HYPOTHESIS, given)
            found = (
                approving.unapprove(session, number) if clear else approving.approve(session, number, up_to_s)
            )
            done.append((hypothesis_label(found), found.claim, approval_of(found)))
    if as_json:
        rows = [
            {"hypothesis": label, "approved": not clear, "quote": view and view.model_dump(mode="json")}
            for label, _, view in done
        ]
        print_json({"hypotheses": rows})
        return
    for label, claim, view in done:
        waits = " and waits" if view is not None else ""
        quote = "" if view is None else f" ({view.words})"
        what = f"is no longer approved{waits}" if clear else "may be tested when its turn comes"
        say(f"{label} {what}{quote}: {claim}")

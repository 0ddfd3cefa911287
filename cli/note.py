"""`autoinfer note`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.console.options import Json


def note(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What was done, in a sentence.")],
    stale: Annotated[
        str | None,
        typer.Option(
            "--stale",
            metavar="WHAT",
            help="Findings that no longer hold: by label, lever, knob or scope (torch=2.13.0).",
        ),
    ] = None,
    campaign: Annotated[
        str | None, typer.Option("--campaign", metavar="C-ID", help="The campaign it belongs to, if to one.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write down work done outside; may mark findings stale."""
    from cli.console.opening import writing
    from cli.console.output import print_json, say
    from db.labels import Noun, format_label
    from knowledge.acts.notes import add_note
    from knowledge.figures import listed
    from knowledge.queries.lookup import campaign_filter

    with writing(ctx) as session:
        noted = add_note(session, text, stale=stale, campaign_id=campaign_filter(session, campaign))
    labels = [format_label(Noun.FINDING, number) for number in noted.stale]
    if as_json:
        print_json({"event_id": noted.event_id, "stale": labels})
        return
    say(
        f"Noted as event {noted.event_id}."
        + (f" {listed(labels)} {_is(labels)} stale now." if labels else "")
    )


def _is(labels: list[str]) -> str:
    return "is" if len(labels) == 1 else "are"

"""`autoinfer answers`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.console.options import CampaignToo, Json, named_once


def answers(
    ctx: typer.Context,
    campaign: Annotated[
        str | None,
        typer.Argument(metavar="[C-ID]", help="Which campaign; the newest one that asks, if not given."),
    ] = None,
    campaign_too: CampaignToo = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the page to this file instead.")
    ] = None,
    as_json: Json = False,
) -> None:
    """What became of the questions that a campaign asks, as a page of Markdown."""
    from cli.console.opening import reading
    from cli.console.output import print_json, say
    from cli.console.output_file import write_output
    from configs.errors import UsageError
    from knowledge.figures import counted
    from knowledge.queries.answered.answers import campaign_answers
    from knowledge.queries.lookup import asking_campaign
    from knowledge.telling.answers import answers_markdown

    with reading(ctx) as session:
        view = campaign_answers(session, asking_campaign(session, named_once(campaign, campaign_too)))
    if not view.answers:
        raise UsageError(
            f"{view.campaign} asks no questions.",
            "Run a campaign that does: autoinfer run levers; its file has a list of questions.",
        )
    page = answers_markdown(view)
    if out is not None:
        write_output(out, page, makes_folder=True)
    if as_json:
        print_json(view)
    elif out is not None:
        say(f"{counted(len(view.contrasts), 'contrast')} of {view.campaign} written to {out}.")
    else:
        print(page, end="")

"""`autoinfer story`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import CampaignToo, Json, named_once

if TYPE_CHECKING:
    from knowledge.telling.story_parts import StoryView


def story(
    ctx: typer.Context,
    campaign: Annotated[
        str | None, typer.Argument(metavar="[C-ID]", help="The campaign; the newest one if not given.")
    ] = None,
    campaign_too: CampaignToo = None,
    whole: Annotated[bool, typer.Option("--all", help="All of it, not what fits on a screen.")] = False,
    as_json: Json = False,
) -> None:
    """A campaign as a story: how it began, what was found, what surprised, where it stands, what next."""
    from cli.console.opening import reading
    from cli.console.output import print_json
    from configs.errors import UsageError
    from db.labels import Noun, format_label
    from db.models import Campaign
    from db.noise import SERIES_NAME
    from knowledge.queries.lookup import campaign_of
    from knowledge.queries.story import campaign_story

    with reading(ctx) as session:
        campaign_id = campaign_of(session, named_once(campaign, campaign_too))
        if session.get_one(Campaign, campaign_id).name == SERIES_NAME:
            label = format_label(Noun.CAMPAIGN, campaign_id)
            raise UsageError(f"{label} is an A/A series.", f"See what it says: autoinfer aa {label}")
        found = campaign_story(session, campaign_id, whole=whole)
    print_json(found) if as_json else _print(found)


def _print(story: StoryView) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from cli.console.output import console

    out = console()
    left_out = 0
    for chapter in story.chapters:
        out.print(Text(chapter.title, "bold"))
        for line in chapter.lines:
            out.print(Padding(Text(line.text), (0, 0, 0, 2)))
        if chapter.more:
            out.print(Padding(Text(f"… and {chapter.more} more.", "dim"), (0, 0, 0, 2)))
        left_out += chapter.more
    if left_out:
        out.print(Text(f"All of it: autoinfer story {story.campaign} --all", "dim"))

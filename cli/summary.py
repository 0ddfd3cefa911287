"""`autoinfer summary`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.console.options import CampaignToo, Json, named_once


def summary(
    ctx: typer.Context,
    campaign: Annotated[
        str | None, typer.Argument(metavar="[C-ID]", help="The campaign; the newest one if not given.")
    ] = None,
    campaign_too: CampaignToo = None,
    as_json: Json = False,
) -> None:
    """What is being validated, what was found, what was ruled out."""
    from dataclasses import replace

    from rich.text import Text

    from agent.campaign.learning.outcome import campaign_outcome
    from cli.console.opening import reading
    from cli.console.output import console, fields, print_json
    from cli.console.still_paid import still_paid
    from configs.errors import UsageError
    from db.labels import Noun, format_label
    from db.models import Campaign
    from db.noise import SERIES_NAME
    from knowledge.queries.facts import campaign_facts
    from knowledge.queries.lookup import campaign_of
    from knowledge.queries.story import story_facts
    from knowledge.telling.story import how_it_came
    from knowledge.telling.summary import summarize

    with reading(ctx) as session:
        campaign_id = campaign_of(session, named_once(campaign, campaign_too))
        if session.get_one(Campaign, campaign_id).name == SERIES_NAME:
            label = format_label(Noun.CAMPAIGN, campaign_id)
            raise UsageError(f"{label} is an A/A series.", f"See what it says: autoinfer aa {label}")
        outcome = campaign_outcome(session, campaign_id)
        facts = campaign_facts(session, campaign_id)
        came = how_it_came(story_facts(session, campaign_id))
        paid = still_paid(session)
    found = summarize(replace(facts, outcome=outcome))
    if as_json:
        how = [line.model_dump(mode="json") for line in came]
        print_json({**found.model_dump(mode="json"), "how_it_came": how, "still_paid": paid})
        return
    out = console()
    out.print(found.headline)
    if found.go_on is not None:
        out.print(found.go_on)
    if came:
        out.print("Found first: " + " ".join(line.text for line in came))
    out.print(Text(f"The whole story: autoinfer story {found.campaign}", "dim"))
    for part in found.parts():
        out.print()
        out.print(fields([(part.title, part.sentence)]))
        for line in part.lines:
            out.print(fields([("  ", line)]))
    if paid is not None:
        out.print()
        out.print(fields([("still paid", paid)]))

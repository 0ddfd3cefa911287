"""`autoinfer hypotheses`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.console.options import DEFAULT_LIMIT, CampaignFilter, Json, Limit, Offset


def hypotheses(
    ctx: typer.Context,
    campaign: CampaignFilter = None,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Only this state; may be given again."),
    ] = None,
    lever: Annotated[str | None, typer.Option("--lever", metavar="LEVER", help="Only this lever.")] = None,
    proposer: Annotated[
        str | None, typer.Option("--proposer", metavar="NAME", help="Only what this one proposed.")
    ] = None,
    search: Annotated[
        str | None,
        typer.Option("--search", metavar="TEXT", help="Only with this in claim, rationale, lever or label."),
    ] = None,
    sort: Annotated[
        str, typer.Option("--sort", metavar="ORDER", help="standing, changed, number, predicted or measured.")
    ] = "standing",
    reverse: Annotated[bool, typer.Option("--reverse", help="The other way round.")] = False,
    limit: Limit = DEFAULT_LIMIT,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """All hypotheses and what became of them."""
    from cli.console.opening import reading
    from cli.console.output import console, pager_line, print_json, say, table
    from cli.console.output import state as shown_state
    from cli.console.vocabulary import members
    from cli.console.words import effect_words
    from db.states import HypothesisState
    from knowledge.queries.claims.hypotheses import HypothesisSort, list_hypotheses
    from knowledge.queries.lookup import campaign_filter

    states = members(HypothesisState, state or [], "--state")
    (order,) = members(HypothesisSort, [sort], "--sort")
    with reading(ctx) as session:
        campaign_id = campaign_filter(session, campaign)
        page = list_hypotheses(
            session,
            campaign_id=campaign_id,
            states=states,
            lever=lever,
            proposer=proposer,
            text=search,
            sort=order,
            reverse=reverse,
            limit=limit,
            offset=offset,
        )
    if as_json:
        print_json(page)
        return
    if page.total == 0:
        filtered = state or lever or proposer or search or campaign
        say("No hypothesis is like that." if filtered else "There is no hypothesis yet.")
        return
    rows = [
        (
            row.id,
            shown_state(row.standing, latency_only=row.latency_only),
            row.claim,
            effect_words(row.predicted),
            effect_words(row.measured),
        )
        for row in page.items
    ]
    console().print(table(("id", "state", "claim", "predicted", "measured"), rows, wide=("claim",)))
    say("", "effects on the metric of each hypothesis: less is faster; predictions with their 80 % interval")
    if rest := pager_line(len(page.items), page.total, offset, "hypotheses"):
        say(rest)

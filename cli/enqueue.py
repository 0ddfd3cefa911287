"""`autoinfer enqueue`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.console.options import CampaignLabel, Json


def enqueue(
    ctx: typer.Context,
    claim: Annotated[str, typer.Argument(metavar="CLAIM", help="What you claim, in a sentence.")],
    set_: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="KNOB=VALUE", help="The change that is to be tested; may be given again."
        ),
    ],
    expect: Annotated[
        str | None,
        typer.Option(
            "--expect",
            metavar="EFFECT",
            help="The effect you predict, such as tpot=-10% or, with its standard deviation, tpot=-10%±4%; "
            "the agent's if not given.",
        ),
    ] = None,
    min_effect: Annotated[
        str | None,
        typer.Option(
            "--min-effect",
            metavar="PERCENT",
            help="The smallest effect worth having; the campaign's if not given.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="METRIC",
            help="What the claim is about, such as nll_bits; the campaign's objective if not given.",
        ),
    ] = None,
    why: Annotated[str | None, typer.Option("--why", metavar="TEXT", help="Why you expect it.")] = None,
    pin: Annotated[bool, typer.Option("--pin", help="Test it before all others.")] = False,
    campaign: CampaignLabel = None,
    as_json: Json = False,
) -> None:
    """Put a hypothesis of your own into the queue, beside the agent's."""
    from agent.campaign.queue.enqueue import enqueue as put_into_queue
    from cli.console.opening import database_of
    from cli.console.output import print_json, say
    from db.labels import Noun, format_label
    from db.states import HypothesisState
    from knowledge.queries.claims.hypothesis_detail import hypothesis_detail
    from knowledge.queries.lookup import campaign_of

    with database_of(ctx) as database:
        with database.read() as session:
            campaign_id = campaign_of(session, campaign)
        hypothesis_id = put_into_queue(
            database,
            campaign_id,
            claim=claim,
            assignments=set_,
            expect=expect,
            min_effect=min_effect,
            why=why,
            pin=pin,
            metric=metric,
        )
        with database.read() as session:
            detail = hypothesis_detail(session, hypothesis_id)
    label = format_label(Noun.HYPOTHESIS, hypothesis_id)
    if as_json:
        print_json(detail)
        return
    where = "waits for the baseline" if detail.state is HypothesisState.PROPOSED else "is in the queue"
    where += ", pinned ahead of what is not" if pin else ""
    say(f"{label} {where}: {claim}", f"Follow it with: autoinfer show {label}")

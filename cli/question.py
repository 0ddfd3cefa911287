"""`autoinfer question`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.console.options import CampaignLabel, Json


def question(
    ctx: typer.Context,
    hypothesis: Annotated[
        str | None, typer.Argument(metavar="H-ID", help="The hypothesis to settle first, such as H-021.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take the question back.")] = False,
    campaign: CampaignLabel = None,
    as_json: Json = False,
) -> None:
    """Ask a question of the night: what settles this hypothesis is tested before all else.

    Without a hypothesis it says which question is asked and whether it is settled.
    """
    from cli.console.opening import reading, writing
    from cli.console.output import print_json, say
    from configs.errors import UsageError
    from db.labels import Noun, format_label
    from db.models import Hypothesis
    from knowledge.acts.night import ask, take_back
    from knowledge.queries.lookup import campaign_of, labelled
    from knowledge.queries.order.night import question_now

    if hypothesis is not None and (clear or campaign is not None):
        option = "--clear" if clear else "--campaign"
        raise UsageError(
            f"A hypothesis and {option} don't go together: a label tells its campaign.",
            f"Write either: autoinfer question {hypothesis}, or: autoinfer question {option}",
        )
    if hypothesis is not None:
        with writing(ctx) as session:
            number = labelled(session, Noun.HYPOTHESIS, hypothesis)
            ask(session, number)
            campaign_id = session.get_one(Hypothesis, number).campaign_id
            found = question_now(session, campaign_id)
    elif clear:
        with writing(ctx) as session:
            campaign_id = campaign_of(session, campaign)
            found = question_now(session, campaign_id)
            take_back(session, campaign_id)
    else:
        with reading(ctx) as session:
            campaign_id = campaign_of(session, campaign)
            found = question_now(session, campaign_id)
    label = format_label(Noun.CAMPAIGN, campaign_id)
    if as_json:
        asked = None if found is None else found.model_dump(mode="json")
        print_json({"campaign": label, "taken_back": clear, "question": asked})
        return
    if found is None:
        say(f"{label} has no question of the night.", "Ask one with: autoinfer question H-ID")
        return
    say(f"{found.hypothesis} {'is no longer' if clear else 'is'} the question of the night: {found.claim}")
    if not clear:
        say(found.sentence)

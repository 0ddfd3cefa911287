"""`autoinfer focus`, `boost` and `ban`: steering by a lever."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import CampaignLabel, Json

Lever = Annotated[
    str | None, typer.Argument(metavar="LEVER", help="A lever of the campaign's space, such as threads.")
]
Clear = Annotated[
    bool, typer.Option("--clear", help="Lift it again: from this lever, or from all when none is given.")
]


def focus(
    ctx: typer.Context,
    lever: Lever = None,
    clear: Clear = False,
    campaign: CampaignLabel = None,
    as_json: Json = False,
) -> None:
    """Rank the hypotheses of one lever before all others."""
    _steer(ctx, "focus", lever, clear, campaign, as_json)


def boost(
    ctx: typer.Context,
    lever: Lever = None,
    clear: Clear = False,
    campaign: CampaignLabel = None,
    as_json: Json = False,
) -> None:
    """Raise the hypotheses of one lever in the ranking."""
    _steer(ctx, "boost", lever, clear, campaign, as_json)


def ban(
    ctx: typer.Context,
    lever: Lever = None,
    clear: Clear = False,
    campaign: CampaignLabel = None,
    as_json: Json = False,
) -> None:
    """Test nothing of one lever any more."""
    _steer(ctx, "ban", lever, clear, campaign, as_json)


def _steer(
    ctx: typer.Context, word: str, lever: str | None, clear: bool, campaign: str | None, as_json: bool
) -> None:
    from cli.opening import writing
    from cli.output import print_json, say
    from configs.errors import UsageError
    from db.labels import Noun, format_label
    from db.states import DirectiveKind
    from knowledge.levers import known_levers
    from knowledge.queries.campaigns import directive_view
    from knowledge.queries.lookup import campaign_of
    from knowledge.steering import give_directive, lift_directives

    kind = DirectiveKind(word)
    if lever is None and not clear:
        raise UsageError(f"Which lever? autoinfer {word} takes one.", f"Write: autoinfer {word} LEVER")
    with writing(ctx) as session:
        campaign_id = campaign_of(session, campaign)
        if clear:
            found = lift_directives(session, campaign_id, kind, lever)
        else:
            assert lever is not None
            found = (give_directive(session, campaign_id, kind, lever, known_levers(session, campaign_id)),)
        views = [directive_view(each).model_dump(mode="json") for each in found]
    if as_json:
        document = {
            "campaign": format_label(Noun.CAMPAIGN, campaign_id),
            "lifted": clear,
            "directives": views,
        }
        print_json(document)
        return
    for view in views:
        say(f"{view['id']} {'lifted' if clear else 'holds'}: {view['text']}")

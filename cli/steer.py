"""`autoinfer focus`, `boost`, `ban`, `cap` and `reserve`: steering by a lever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import CampaignLabel, Json

if TYPE_CHECKING:
    from knowledge.acts.allowances import Allowance

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
    """Rank one lever's hypotheses as if they paid five times as much."""
    _steer(ctx, "focus", lever, clear, campaign, as_json)


def boost(
    ctx: typer.Context,
    lever: Lever = None,
    clear: Clear = False,
    campaign: CampaignLabel = None,
    as_json: Json = False,
) -> None:
    """Rank one lever's hypotheses as if they paid twice as much."""
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


def cap(
    ctx: typer.Context,
    lever: Lever = None,
    most: Annotated[
        str | None, typer.Argument(metavar="MOST", help="Tests (3), time (20m) or a share of tests (30%).")
    ] = None,
    clear: Clear = False,
    campaign: CampaignLabel = None,
    as_json: Json = False,
) -> None:
    """Give one lever at most so many tests, so much time, or such a share of all tests."""
    from knowledge.acts.allowances import parse_most

    _check_given("cap", lever, most, "3", clear)
    _steer(ctx, "cap", lever, clear, campaign, as_json, None if most is None else parse_most(most))


def reserve(
    ctx: typer.Context,
    lever: Lever = None,
    least: Annotated[
        str | None, typer.Argument(metavar="LEAST", help="A share of all tests, such as 30%.")
    ] = None,
    clear: Clear = False,
    campaign: CampaignLabel = None,
    as_json: Json = False,
) -> None:
    """Give one lever at least such a share of all tests, while it has hypotheses."""
    from knowledge.acts.allowances import parse_least

    _check_given("reserve", lever, least, "30%", clear)
    _steer(ctx, "reserve", lever, clear, campaign, as_json, None if least is None else parse_least(least))


def _check_given(word: str, lever: str | None, amount: str | None, example: str, clear: bool) -> None:
    """Raise `UsageError` where the amount is missing, or given to what lifts."""
    from configs.errors import UsageError

    if clear and amount is not None:
        raise UsageError(
            f"autoinfer {word} --clear lifts it whatever it is.", f"Write: autoinfer {word} {lever} --clear"
        )
    if not clear and lever is not None and amount is None:
        raise UsageError(
            f"How much? autoinfer {word} takes a lever and an amount.",
            f"Write: autoinfer {word} {lever} {example}",
        )


def _steer(
    ctx: typer.Context,
    word: str,
    lever: str | None,
    clear: bool,
    campaign: str | None,
    as_json: bool,
    allowance: Allowance | None = None,
) -> None:
    from cli.console.opening import writing
    from cli.console.output import print_json, say
    from configs.errors import UsageError
    from db.labels import Noun, format_label
    from db.states import DirectiveKind
    from knowledge.acts.lever_steering import give_directive, lift_directives
    from knowledge.acts.levers import known_levers
    from knowledge.queries.campaigns import directive_view
    from knowledge.queries.lookup import campaign_of

    kind = DirectiveKind(word)
    if lever is None and not clear:
        raise UsageError(f"Which lever? autoinfer {word} takes one.", f"Write: autoinfer {word} LEVER")
    with writing(ctx) as session:
        campaign_id = campaign_of(session, campaign)
        if clear:
            found = lift_directives(session, campaign_id, kind, lever)
        else:
            assert lever is not None
            levers = known_levers(session, campaign_id)
            found = (give_directive(session, campaign_id, kind, lever, levers, allowance),)
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

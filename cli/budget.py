"""`autoinfer budget`: what may be spent on rented machines, in US dollars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Json

if TYPE_CHECKING:
    from db.money import BudgetStanding

app = typer.Typer(
    rich_markup_mode=None, add_completion=False, help="What may be spent on rented machines, in dollars."
)

Campaign = Annotated[
    str | None, typer.Option("--campaign", metavar="C-ID", help="The budget of this campaign.")
]
Day = Annotated[bool, typer.Option("--day", help="The budget of every day, of UTC.")]
Target = Annotated[
    str | None,
    typer.Option("--target", metavar="TARGET", help="The budget of a target, such as modal:H100!."),
]


@app.command("list")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    """Every budget, with what was spent of it, what is reserved for runs in flight, and what is left."""
    from cli.console.opening import reading
    from cli.console.output import console, print_json, say, table
    from configs.quantities import format_usd
    from db.money import budgets, usd

    with reading(ctx) as session:
        found = budgets(session)
    if as_json:
        print_json({"budgets": [_as_json(each) for each in found]})
        return
    if not found:
        say("There is no budget in dollars, so nothing is submitted to a paid target.")
        say("Give one with: autoinfer budget set --target TARGET USD")
        return
    rows = [
        (
            each.words,
            *(format_usd(usd(amount)) for amount in (each.limit, each.spent, each.reserved, each.left)),
            "–" if each.approve_above is None else format_usd(usd(each.approve_above)),
        )
        for each in found
    ]
    console().print(table(("which", ">limit", ">spent", ">reserved", ">left", ">asks above"), rows))


@app.command("set")
def set_(
    ctx: typer.Context,
    usd: Annotated[str, typer.Argument(metavar="USD", help="The limit, such as 20 or 0.50.")],
    campaign: Campaign = None,
    day: Day = False,
    target: Target = None,
    approve_above: Annotated[
        str | None,
        typer.Option("--approve-above", metavar="USD", help="Ask before a job that may cost more than this."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Set or change one budget; what was spent within it stays. A job must fit into all that cover it."""
    from cli.console.opening import writing
    from cli.console.output import print_json, say
    from configs.quantities import parse_usd
    from db import money
    from knowledge.acts.budgeting import scope_of, set_budget

    limit = money.microusd(parse_usd(usd))
    above = None if approve_above is None else money.microusd(parse_usd(approve_above))
    with writing(ctx) as session:
        found, text = set_budget(session, *scope_of(session, campaign, day, target), limit, above)
    if as_json:
        print_json(_as_json(found))
    else:
        say(text)


@app.command()
def drop(
    ctx: typer.Context,
    campaign: Campaign = None,
    day: Day = False,
    target: Target = None,
    as_json: Json = False,
) -> None:
    """Take one budget away: what it alone covered is not submitted any more."""
    from cli.console.opening import writing
    from cli.console.output import print_json, say
    from knowledge.acts.budgeting import drop_budget, scope_of

    with writing(ctx) as session:
        scope, name = scope_of(session, campaign, day, target)
        text = drop_budget(session, scope, name)
    if as_json:
        print_json({"scope": scope.value, "name": name, "dropped": True})
    else:
        say(text)


def _as_json(budget: BudgetStanding) -> dict[str, object]:
    from db.money import usd

    return {
        "scope": budget.scope.value,
        "name": budget.name,
        "limit_usd": usd(budget.limit),
        "spent_usd": usd(budget.spent),
        "reserved_usd": usd(budget.reserved),
        "left_usd": usd(budget.left),
        "approve_above_usd": None if budget.approve_above is None else usd(budget.approve_above),
    }

"""`autoinfer experiments`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import DEFAULT_LIMIT, CampaignFilter, Json, Limit, Offset

if TYPE_CHECKING:
    from knowledge.queries.measured.experiments import ExperimentRow


def experiments(
    ctx: typer.Context,
    campaign: CampaignFilter = None,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Only this state; may be given again."),
    ] = None,
    outcome: Annotated[
        list[str] | None,
        typer.Option("--outcome", metavar="OUTCOME", help="Only this outcome; may be given again."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Only this kind; may be given again."),
    ] = None,
    lever: Annotated[
        str | None, typer.Option("--lever", metavar="LEVER", help="Only changes that touch this lever.")
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            "--search", metavar="TEXT", help="Text in the claim, the reason or the failure; a label."
        ),
    ] = None,
    sort: Annotated[
        str, typer.Option("--sort", metavar="ORDER", help="id, effect, predicted or took.")
    ] = "id",
    reverse: Annotated[bool, typer.Option("--reverse", help="The other way round.")] = False,
    limit: Limit = DEFAULT_LIMIT,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """All experiments: past, running, planned; newest first unless another order is asked for."""
    from cli.console.opening import reading
    from cli.console.output import console, pager_line, print_json, say, table
    from cli.console.output import state as shown_state
    from cli.console.vocabulary import members
    from cli.console.words import effect_words
    from db.states import ExperimentKind, ExperimentState, VerdictOutcome
    from knowledge.queries.lookup import campaign_filter
    from knowledge.queries.measured.experiments import ExperimentsAsked, ExperimentSort, find_experiments

    states = members(ExperimentState, state or [], "--state")
    outcomes = members(VerdictOutcome, outcome or [], "--outcome")
    kinds = members(ExperimentKind, kind or [], "--kind")
    (order,) = members(ExperimentSort, [sort], "--sort")
    with reading(ctx) as session:
        asked = ExperimentsAsked(
            campaign_id=campaign_filter(session, campaign),
            states=states,
            kinds=kinds,
            outcomes=outcomes,
            lever=lever,
            text=search,
            sort=order,
            descending=not reverse,
        )
        page = find_experiments(session, asked, limit=limit, offset=offset)
    if as_json:
        print_json(page)
        return
    if page.total == 0:
        narrowed = state or outcome or campaign or kind or lever or search
        say("No experiment is like that." if narrowed else "There is no experiment yet.")
        return
    rows = [
        (
            row.id,
            row.kind.value,
            shown_state(row.outcome.value if row.outcome else row.standing, latency_only=row.latency_only),
            _about(row),
            effect_words(row.effect),
            _took(row),
        )
        for row in page.items
    ]
    console().print(table(("id", "kind", "state", "about", "effect", ">took"), rows, wide=("about",)))
    if rest := pager_line(len(page.items), page.total, offset, "experiments"):
        say("", rest)


def _about(row: ExperimentRow) -> str:
    from cli.console.words import change_words
    from db.states import ExperimentKind

    if row.reproduces is not None:
        return f"{row.reproduces} elsewhere" if row.kind.value == "promote" else f"{row.reproduces} again"
    if row.kind is ExperimentKind.NOISE:
        about = "A/A pair"
    else:
        about = f"{row.hypothesis} {row.claim}" if row.hypothesis else change_words(row.change)
    if row.stage is not None and row.finished_at is None:
        about += f" ({row.stage}{'' if row.device is None else f' on {row.device}'})"
    return about or "baseline"


def _took(row: ExperimentRow) -> str:
    from configs.quantities import format_duration

    return "—" if row.wall_s is None else format_duration(row.wall_s)

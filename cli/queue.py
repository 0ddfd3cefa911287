"""`autoinfer queue`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import DEFAULT_LIMIT, CampaignLabel, Json, Limit, Offset

if TYPE_CHECKING:
    from rich.console import Console

    from knowledge.queries.order.queue import QueueRow


def queue(
    ctx: typer.Context,
    campaign: CampaignLabel = None,
    awaiting: Annotated[bool, typer.Option("--awaiting", help="Only what waits for your approval.")] = False,
    what_if: Annotated[
        str | None,
        typer.Option(
            "--what-if",
            metavar="H-ID[=VERDICT]",
            help="Where it would go if this came out supported (or supported:-12%), refuted or infeasible.",
        ),
    ] = None,
    limit: Limit = DEFAULT_LIMIT,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """The order of what comes next, with the reason for each place."""
    from cli.console.opening import reading
    from cli.console.output import console, pager_line, print_json, say
    from db.labels import Noun, format_label
    from knowledge.queries.lookup import campaign_of
    from knowledge.queries.order.queue import awaits_baseline, queue_page

    if what_if is not None:
        from cli.what_if import show_what_if
        from configs.errors import UsageError

        if awaiting or offset:
            option = "--awaiting" if awaiting else "--offset"
            raise UsageError(f"--what-if and {option} don't go together.", f"Leave {option} out.")
        show_what_if(ctx, what_if, campaign, limit, as_json)
        return
    with reading(ctx) as session:
        campaign_id = campaign_of(session, campaign)
        page = queue_page(session, campaign_id, limit=limit, offset=offset, awaiting=awaiting)
        begins = awaits_baseline(session, campaign_id)
    label = format_label(Noun.CAMPAIGN, campaign_id)
    if as_json:
        print_json({"campaign": label, **page.model_dump(mode="json")})
        return
    if page.total == 0 and awaiting:
        say(f"Nothing in {label} waits for your approval.")
        return
    if page.total == 0:
        why = ": hypotheses are proposed once the baseline and its profile are known" if begins else ""
        how = 'Add to it with: autoinfer enqueue "CLAIM" --set KNOB=VALUE'
        say(f"The queue of {label} is empty{why}.", how)
        return
    out = console()
    for row in page.items:
        _print_row(out, row)
    if rest := pager_line(len(page.items), page.total, offset, "hypotheses"):
        say("", rest)


def _where(row: QueueRow) -> str:
    if row.held:
        return "held"
    return "under test on" if row.interrupted is None and row.ended is None else "was tested on"


def _print_row(out: Console, row: QueueRow) -> None:
    from cli.console.output import fields
    from cli.console.words import change_words, predictions_words, rank_words
    from knowledge.latency_only import LATENCY_ONLY

    place = (
        ("held" if row.held else row.standing)
        if row.rank is None
        else rank_words(row.rank, row.moved_from, row.move_reason is not None)
    )
    pinned = "  pinned" if row.pinned else ""
    approval = None if row.approval is None or not row.approval.waits else row.approval.words
    only = f", {LATENCY_ONLY}" if row.latency_only else ""
    out.print(f"{place}{only}  {row.id}  {row.claim}{pinned}")
    out.print(
        fields(
            [
                ("   change", change_words(row.change)),
                ("   predicted", predictions_words(row.predictions)),
                ("   confirms", None if row.elsewhere is None else row.elsewhere.words),
                (f"   {_where(row)}", row.held or row.device),
                ("   its test", None if row.ended is None else row.ended.clause),
                ("   why here", row.reason),
                ("   to approve", approval),
                *(("   missing", f"{tool.words}: {tool.command}") for tool in row.missing),
                ("   moved", row.move_reason),
            ]
        )
    )

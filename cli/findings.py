"""`autoinfer findings`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import DEFAULT_LIMIT, CampaignFilter, Json, Limit, Offset


def findings(
    ctx: typer.Context,
    campaign: CampaignFilter = None,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", metavar="STATUS", help="Only this status; may be given again."),
    ] = None,
    limit: Limit = DEFAULT_LIMIT,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """What verdicts together say, each within its scope."""
    from cli.opening import reading
    from cli.output import console, fields, pager_line, print_json, say, state
    from cli.vocabulary import members
    from db.states import FindingStatus
    from knowledge.figures import listed
    from knowledge.queries.findings import list_findings
    from knowledge.queries.lookup import campaign_filter

    statuses = members(FindingStatus, status or [], "--status")
    with reading(ctx) as session:
        campaign_id = campaign_filter(session, campaign)
        page = list_findings(session, campaign_id=campaign_id, statuses=statuses, limit=limit, offset=offset)
    if as_json:
        print_json(page)
        return
    if page.total == 0:
        say("No finding is like that." if status or campaign else "There is no finding yet.")
        return
    out = console()
    for finding in page.items:
        relations = [f"{each.experiment} {each.relation.value}" for each in finding.evidence]
        out.print(finding.id, state(finding.status.value), finding.strength, sep="  ")
        out.print(
            fields(
                [
                    ("  ", finding.claim),
                    ("  ", finding.status_reason),
                    ("  ", f"{listed(relations)} it" if relations else None),
                    *(("  ", f"{each.id}: {each.reason}") for each in finding.elsewhere),
                ]
            )
        )
    if rest := pager_line(len(page.items), page.total, offset, "findings"):
        say("", rest)

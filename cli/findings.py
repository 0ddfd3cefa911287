"""`autoinfer findings`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.console.options import DEFAULT_LIMIT, CampaignFilter, Json, Limit, Offset


def findings(
    ctx: typer.Context,
    campaign: CampaignFilter = None,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", metavar="STATUS", help="Only this status; may be given again."),
    ] = None,
    about: Annotated[
        str | None,
        typer.Option(
            "--about", metavar="WHAT", help="Only about this lever, knob or part of the scope (torch=2.13.0)."
        ),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            "--on", metavar="HARDWARE", help="Only on targets with this in their name, such as H200."
        ),
    ] = None,
    disputed: Annotated[
        bool, typer.Option("--disputed", help="Only what another finding, or a verdict of its own, disputes.")
    ] = False,
    limit: Limit = DEFAULT_LIMIT,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """What verdicts together say, each within its scope."""
    from cli.console.opening import reading
    from cli.console.output import console, fields, pager_line, print_json, say, state
    from cli.console.vocabulary import members
    from cli.console.words import about_words
    from db.states import FindingStatus
    from knowledge.figures import listed
    from knowledge.machines import machines_named
    from knowledge.queries.found.findings import list_findings
    from knowledge.queries.lookup import campaign_filter

    statuses = members(FindingStatus, status or [], "--status")
    with reading(ctx) as session:
        campaign_id = campaign_filter(session, campaign)
        page = list_findings(
            session,
            campaign_id=campaign_id,
            statuses=statuses,
            about=about,
            target=on,
            disputed=disputed,
            limit=limit,
            offset=offset,
        )
    if as_json:
        print_json(page)
        return
    if page.total == 0:
        asked = status or campaign or about or on or disputed
        say("No finding is like that." if asked else "There is no finding yet.")
        return
    out = console()
    for finding in page.items:
        relations = [f"{each.named} {each.relation.value}" for each in finding.evidence]
        places = machines_named(" · ".join(str(finding.scope.get(name)) for name in ("model", "target")))
        said = f"{about_words(finding)}: {finding.says}" if finding.change else finding.says
        writer = finding.written_by
        written = None if writer is None else f"Written down by {writer}, for {places}; {said}."
        mark = ("disputed",) if finding.disputed_by else ()
        out.print(finding.id, state(finding.status.value), finding.strength, *mark, sep="  ")
        out.print(
            fields(
                [
                    ("  ", machines_named(finding.claim)),
                    ("  ", finding.beside and f"Made {finding.beside}."),
                    ("  ", finding.status_reason and machines_named(finding.status_reason)),
                    ("  ", f"But {finding.doubt}." if finding.doubt else None),
                    ("  ", written),
                    ("  ", f"{listed(relations)} it" if relations else None),
                    *(("  ", f"{each.id}: {machines_named(each.reason)}") for each in finding.elsewhere),
                ]
            )
        )
    if rest := pager_line(len(page.items), page.total, offset, "findings"):
        say("", rest)

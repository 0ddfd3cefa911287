"""`autoinfer report`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cli.console.options import CampaignToo, Json, named_once


class ReportFormat(StrEnum):
    """How a report is written."""

    HTML = "html"
    MARKDOWN = "md"
    JSON = "json"


_FORMS = {
    "": ReportFormat.HTML,
    ".html": ReportFormat.HTML,
    ".htm": ReportFormat.HTML,
    ".md": ReportFormat.MARKDOWN,
    ".markdown": ReportFormat.MARKDOWN,
    ".json": ReportFormat.JSON,
}
"""Forms by the ending of a file's name."""


def report(
    ctx: typer.Context,
    campaign: Annotated[
        str | None,
        typer.Argument(metavar="[C-ID]", help="Which campaign; the newest if not given.", show_default=False),
    ] = None,
    campaign_too: CampaignToo = None,
    format_: Annotated[
        ReportFormat | None,
        typer.Option(
            "--format", help="Of what form; by the ending of the file's name, else html.", show_default=False
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write to this file.", show_default=False)
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Write the JSON schema of --format json instead.")
    ] = False,
    as_json: Json = False,
) -> None:
    """A campaign as one self-contained file: result, path, findings, and what all of it rests on."""
    import json

    from cli.console.output import print_json, say
    from cli.console.output_file import write_output
    from configs.errors import UsageError

    if to is None and as_json and format_ not in (None, ReportFormat.JSON):
        raise UsageError(f"--json and --format {format_} ask for two forms.", "Leave one of them out.")
    if schema:
        from knowledge.report.view import ReportView

        text = json.dumps(ReportView.model_json_schema(mode="serialization"), indent=2) + "\n"
        asked = ReportFormat.JSON
    else:
        asked = format_ or _by_name(to, ReportFormat.JSON if as_json else ReportFormat.HTML)
        text = _written(ctx, named_once(campaign, campaign_too), asked)
    if to is None:
        print(text, end="")
        return
    write_output(to, text)
    if as_json:
        print_json({"output": str(to), "format": asked.value, "bytes": len(text.encode())})
    else:
        say(f"Wrote {len(text.encode()):,} bytes to {to}.")


def _by_name(to: Path | None, printed: ReportFormat) -> ReportFormat:
    """The form that the name of a file asks for, HTML where it has no ending; `printed` without a file.

    Raises `UsageError` for the ending of another form: what is written there would not open.
    """
    from configs.errors import UsageError

    if to is None:
        return printed
    found = _FORMS.get(to.suffix.lower())
    if found is None:
        raise UsageError(
            f"A report is not written as {to.suffix}, and {to.name} says nothing else.",
            "Name a file that ends in .html, .md or .json, or say which of them it holds with --format.",
        )
    return found


def _written(ctx: typer.Context, campaign: str | None, asked: ReportFormat) -> str:
    from datetime import UTC, datetime

    from cli.console.opening import reading
    from knowledge.queries.lookup import campaign_of
    from knowledge.report.gathering import report as read

    with reading(ctx) as session:
        found = read(session, campaign_of(session, campaign), datetime.now(UTC).replace(microsecond=0))
    if asked is ReportFormat.JSON:
        return found.model_dump_json(indent=2) + "\n"
    if asked is ReportFormat.MARKDOWN:
        from dashboard.report.markdown import as_markdown

        return as_markdown(found)
    from dashboard.report.html import as_html

    return as_html(found)

"""`autoinfer campaign`: list, pause, resume, stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import DEFAULT_LIMIT, Json, Limit, Offset

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from db.models import Campaign

app = typer.Typer(rich_markup_mode=None, add_completion=False, help="List, pause, resume or stop campaigns.")

Label = Annotated[
    str | None, typer.Argument(metavar="[C-ID]", help="Which campaign; the newest one if not given.")
]


@app.command("list")
def list_(
    ctx: typer.Context, limit: Limit = DEFAULT_LIMIT, offset: Offset = 0, as_json: Json = False
) -> None:
    """All campaigns, newest first, with what they spent and found."""
    from cli.console.opening import reading
    from cli.console.output import console, pager_line, print_json, say, state, table, when
    from configs.quantities import format_duration
    from knowledge.machines import machine
    from knowledge.queries.campaigns import list_campaigns

    with reading(ctx) as session:
        page = list_campaigns(session, limit=limit, offset=offset)
    if as_json:
        print_json(page)
        return
    if page.total == 0:
        say("There is no campaign yet.", "Start one with: autoinfer run")
        return
    rows = [
        (
            each.id,
            each.name,
            state(each.state.value),
            f"{each.model} on {machine(each.target)}",
            str(each.hypotheses.get("supported", 0)),
            str(sum(each.hypotheses.values())),
            format_duration(each.spent.experiment_s),
            when(each.started_at),
        )
        for each in page.items
    ]
    columns = ("id", "name", "state", "what", ">supported", ">hypotheses", ">measured for", "started")
    console().print(table(columns, rows, wide=("what",)))
    if rest := pager_line(len(page.items), page.total, offset, "campaigns"):
        say("", rest)


@app.command()
def pause(ctx: typer.Context, campaign: Label = None, as_json: Json = False) -> None:
    """Let a campaign finish what runs and take nothing new."""
    from knowledge.acts.steering import pause_campaign

    _change(ctx, campaign, pause_campaign, as_json)


@app.command()
def resume(ctx: typer.Context, campaign: Label = None, as_json: Json = False) -> None:
    """Let a paused campaign go on."""
    from knowledge.acts.steering import resume_campaign

    _change(ctx, campaign, resume_campaign, as_json)


@app.command()
def stop(ctx: typer.Context, campaign: Label = None, as_json: Json = False) -> None:
    """End a campaign; what runs is finished first."""
    from knowledge.acts.steering import stop_campaign

    _change(ctx, campaign, stop_campaign, as_json)


def _change(
    ctx: typer.Context, text: str | None, act: Callable[[Session, int], Campaign], as_json: bool
) -> None:
    from cli.console.opening import writing
    from cli.console.output import print_json, say
    from db.campaign_owner import is_driven
    from db.labels import Noun, format_label
    from db.states import CampaignState
    from knowledge.queries.going_on import going_on
    from knowledge.queries.lookup import campaign_of

    with writing(ctx) as session:
        found = act(session, campaign_of(session, text))
        go_on = going_on(session, found.id)
        state, reason, driven = found.state, found.stopped_because, is_driven(session, found)
        label = format_label(Noun.CAMPAIGN, found.id)
    if as_json:
        said = {"campaign": label, "state": state.value, "stopped_because": reason, "driven": driven}
        print_json({**said, "go_on": go_on})
        return
    sentence = {
        (CampaignState.PAUSED, True): "is paused; what runs is finished.",
        (CampaignState.PAUSED, False): "is paused; no process drives it now.",
        (CampaignState.RUNNING, True): "goes on.",
        (CampaignState.RUNNING, False): "is no longer paused, but no process drives it now.",
        (CampaignState.STOPPING, True): "ends when what runs is finished.",
        (CampaignState.STOPPED, False): "has ended.",
    }[state, driven]
    if state is CampaignState.PAUSED and driven:
        go_on = f"Go on with: autoinfer campaign resume {label}"
    say(f"{label} {sentence}", *([go_on] if go_on else []))

"""`autoinfer export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.console.options import CampaignToo, Json, named_once


def export(
    ctx: typer.Context,
    campaign: Annotated[
        str | None,
        typer.Argument(metavar="[C-ID]", help="Which campaign; the newest if not given.", show_default=False),
    ] = None,
    campaign_too: CampaignToo = None,
    recipe: Annotated[
        bool, typer.Option("--recipe", help="What to deploy: command, checkpoint, check.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FOLDER", help="Write into this folder; recipe-C-ID if not given."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write what to deploy of a campaign into a folder: the engine's command, what its checkpoint is built
    from, pinned versions, and a check that tells after an upgrade whether the gain is still there.
    """
    from agent.recipe.folder import SCRIPTS, files_of
    from agent.recipe.making import recipe_of
    from agent.recipe.promising import denied
    from cli.console.opening import reading, settings_of
    from cli.console.output import print_json, say
    from configs.errors import UsageError
    from knowledge.queries.lookup import campaign_of

    if not recipe:
        raise UsageError(
            "Nothing was said to be exported.",
            "Write what to deploy with: autoinfer export C-ID --recipe; a report is written by: autoinfer "
            "report",
        )
    settings = settings_of(ctx)
    with reading(ctx) as session:
        campaign_id = campaign_of(session, named_once(campaign, campaign_too))
        found = recipe_of(session, campaign_id, settings.cache_dir)
        against = denied(session, campaign_id, found.rests_on)
    folder = to or Path(f"recipe-{found.campaign}")
    files = files_of(found, against)
    try:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty.", "Name another folder with --to.")
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
            if name in SCRIPTS:
                (folder / name).chmod(0o755)
    except OSError as error:
        raise UsageError(
            f"{folder} can't be written: {error.strerror}.", "Name another folder with --to."
        ) from None
    if as_json:
        recipe_told = found.model_dump(mode="json")
        print_json({"folder": str(folder), "files": list(files), "recipe": recipe_told, "denied": against})
        return
    say(
        f"Wrote the recipe of {found.experiment} to {folder}: {', '.join(files)}.",
        *against,
        f"Check it {'before it is deployed' if against else 'after an upgrade'}: autoinfer check {folder}",
    )

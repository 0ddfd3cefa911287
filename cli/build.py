"""`autoinfer build`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from cli.console.options import Json

DEVICE = re.compile(r"cpu|cuda(:\d+)?")
"""What a checkpoint is built on."""


def build(
    ctx: typer.Context,
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A recipe's folder, or its recipe.json.")],
    to: Annotated[
        Path, typer.Option("--to", metavar="FOLDER", help="Put the checkpoint into this folder.")
    ] = Path("checkpoint"),
    device: Annotated[str, typer.Option("--device", metavar="DEVICE", help="Where to compute.")] = "cpu",
    as_json: Json = False,
) -> None:
    """Build the checkpoint of a recipe from the model's own, by the stages that the campaign ran.

    Ends with exit code 1 where what is installed here gives another artifact than the one that was measured.
    """
    import shutil

    from agent.recipe.checkpoints import build_checkpoint, is_built, stages_on
    from cli.console.opening import settings_of
    from cli.console.output import print_json, say
    from cli.recipe_file import recipe_in
    from configs.errors import AutoinferError, UsageError
    from experiments.artifacts.store import ArtifactStore
    from experiments.job.assembly import checkpoint_path
    from experiments.reference_model.load import checkpoint_fingerprint
    from experiments.space.configuration import Configuration

    found = recipe_in(recipe)
    if not DEVICE.fullmatch(device):
        raise UsageError(f"{device!r} is no device to compute on.", "Name cpu, or a GPU such as cuda:0.")
    settings = settings_of(ctx)
    configuration, stages = Configuration.of(found.configuration), stages_on(device, settings.cache_dir)
    if not is_built(configuration, stages):
        raise UsageError("This recipe serves the model's own checkpoint: there is nothing to build.", "")
    if to.exists():
        raise UsageError(f"{to} is there already.", "Name another folder with --to.")
    original = checkpoint_path(_model(found.model, found.hub))
    if checkpoint_fingerprint(original) != found.model_fingerprint:
        raise AutoinferError(
            f"{original} is not the model of the recipe: its files have another SHA-256 than "
            f"{found.model_fingerprint[:12]}.",
            "Put the same files there, or take a recipe of these.",
        )
    with ArtifactStore(settings.artifacts_dir) as store:
        made = build_checkpoint(
            original,
            found.model_fingerprint,
            configuration,
            stages,
            store,
            lambda said: None if as_json else say(said),
        )
        shutil.copytree(made.path, to)
    same = bool(found.builds) and made.digest == found.builds[-1].digest
    if as_json:
        print_json({"folder": str(to), "digest": made.digest, "same": same})
    elif same:
        say(f"{to} is the checkpoint that was measured.")
    else:
        wanted = found.builds[-1].digest[:12] if found.builds else "none"
        say(
            f"{to} is another checkpoint than the one that was measured: {made.digest[:12]}, not {wanted}, "
            "for other "
            "versions build it. Check what it gains before it is deployed."
        )
    if not same:
        raise typer.Exit(1)


def _model(model: str, hub: dict[str, object] | None) -> str:
    """The model as its checkpoint is found on this machine: one of the hub by its pinned commit."""
    if hub is None:
        return model
    from configs.model_names import HubName
    from experiments.checkpoints.hub import fetch

    return str(fetch(HubName(str(hub["repo"]), str(hub["commit"]))).folder)

"""`autoinfer reference`: the packaged reference model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cli.console.options import Json
from cli.training import Seed, make_folder, needs_new_folder, needs_torch

PACKAGED_SEED = 20261121
"""Seed when none is given: that of the packaged weights, as their card says."""

app = typer.Typer(rich_markup_mode=None, add_completion=False, help="Train the packaged reference model.")


@app.callback()
def reference() -> None:
    """Train the packaged reference model."""


@app.command()
def train(
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="An empty or new folder for the weights.")
    ],
    seed: Seed = PACKAGED_SEED,
    minutes: Annotated[
        float | None, typer.Option("--minutes", min=0.01, help="How long to train; 7.6 if not given.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Train this many steps instead of a time.")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="DEVICE", help="Where to train; a GPU if there is one."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train the reference model from the standard library's text, with its tokenizer and MTP head.

    Takes about ten minutes on a large GPU; on a CPU a few steps show that the recipe works. DIR receives the
    weights, the tokenizer and a card with what was measured.
    """
    from cli.console.output import print_json, say
    from configs.errors import UsageError

    if minutes is not None and steps is not None:
        raise UsageError("--minutes and --steps cannot both hold.", "Give one of them.")
    needs_new_folder(output, "--output")
    needs_torch("autoinfer reference train")
    from experiments.compute_device import compute_device
    from experiments.reference_model.recipe import train as train_reference
    from experiments.reference_model.training import Progress

    compute_device(device)  # refuses one that is not here before anything is made
    make_folder(output, "--output")

    def tell(progress: Progress) -> None:
        print(
            f"step {progress.step}: {100 * progress.share_done:.0f} % done, loss {progress.loss:.3f} nats a "
            f"token, MTP {progress.mtp_loss:.3f}",
            file=sys.stderr,
        )

    folder = train_reference(output, seed=seed, minutes=minutes, steps=steps, device=device, progress=tell)
    if as_json:
        print_json(
            {"output": str(folder), "seed": seed, "files": sorted(each.name for each in folder.iterdir())}
        )
        return
    say(f"The reference model lies in {folder}.")

"""`autoinfer reference`: the packaged reference model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.options import Json

app = typer.Typer(rich_markup_mode=None, add_completion=False, help="Train the packaged reference model.")

DEFAULT_SEED = 20251121
"""Seed of the packaged weights."""

DEFAULT_MINUTES = 15.0
"""Minutes that the packaged weights were trained for, on one GPU."""


@app.callback()
def reference() -> None:
    """Train the packaged reference model."""


@app.command()
def train(
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="An empty or new folder for the weights.")
    ],
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of the weights and of the order of the text.")
    ] = (DEFAULT_SEED),
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.01, help="How long to train.")
    ] = DEFAULT_MINUTES,
    device: Annotated[
        str, typer.Option("--device", metavar="DEVICE", help="Where to train, such as cuda or cpu.")
    ] = "cuda",
    as_json: Json = False,
) -> None:
    """Train the reference model from the standard library's text, with its tokenizer and MTP head.

    Takes 10 to 20 minutes on a GPU; the weights, the tokenizer and a card with what was measured come into
    DIR.
    """
    from cli.output import print_json, say
    from configs.errors import UsageError

    if output.is_dir() and any(output.iterdir()):
        raise UsageError(f"{output} is not empty.", "Name a new folder; nothing was changed.")
    needs_torch("autoinfer reference train")
    from experiments.reference_model.recipe import train as train_reference

    card = train_reference(output, seed=seed, minutes=minutes, device=device)
    if as_json:
        print_json({"output": str(output), "card": card})
        return
    say(f"The reference model lies in {output}.")


def needs_torch(command: str) -> None:
    """Raise `UsageError` when PyTorch or transformers is not installed."""
    from importlib.util import find_spec

    from configs.errors import UsageError

    missing = [package for package in ("torch", "transformers") if find_spec(package) is None]
    if missing:
        raise UsageError(
            f"{command} needs {' and '.join(missing)}, which this installation lacks.",
            "Install them with: pip install 'autoinfer[reference]'",
        )

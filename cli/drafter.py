"""`autoinfer drafter`: drafters that read the target's hidden states."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console.options import Json
from cli.training import Seed, make_folder, needs_new_folder, needs_torch

app = typer.Typer(rich_markup_mode=None, add_completion=False, help="Train, measure or show a drafter.")

REFERENCE = "reference"
"""The word for the packaged reference model."""

PACKAGED = "packaged"
"""The word for the reference model's packaged drafter."""

PACKAGED_SEED = 7
"""Seed when none is given: that of the packaged drafter, as its card says."""

Model = Annotated[
    str, typer.Option("--model", metavar="DIR", help="The target: a checkpoint folder, or `reference`.")
]
Folder = Annotated[
    str, typer.Argument(metavar="DIR", help="The drafter's folder; the packaged one if not given.")
]
Device = Annotated[
    str | None, typer.Option("--device", metavar="DEVICE", help="Where to compute; a GPU if there is one.")
]


@app.callback()
def drafter() -> None:
    """Train, measure or show a drafter."""


@app.command()
def train(
    model: Model = REFERENCE,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="An empty or new folder for the drafter.")
    ] = Path("drafter"),
    seed: Seed = PACKAGED_SEED,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Steps of training; 6,000 on a GPU, 20 on a CPU.")
    ] = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Train a DFlash drafter for a model, from the standard library's text and the model's own.

    Takes about ten minutes on a GPU for the reference model; on a CPU a few steps show that the recipe
    works. DIR receives configuration and weights as vLLM loads them, and a card with the acceptance that was
    measured.
    """
    from cli.console.output import print_json, say

    needs_new_folder(out, "--out")
    needs_torch("autoinfer drafter train")
    from configs.quantities import format_duration
    from experiments.compute_device import compute_device
    from experiments.drafters.dflash.recipe import train as train_drafter
    from experiments.drafters.dflash.training import Progress

    def tell(progress: Progress) -> None:
        print(
            f"step {progress.step} of {progress.steps}: loss {progress.loss:.3f} nats, "
            f"first drafts right {100 * progress.first_right:.0f} %, {format_duration(progress.elapsed_s)}",
            file=sys.stderr,
            flush=True,
        )

    with _told():
        compute_device(device)  # refuses one that is not here before anything is made
        make_folder(out, "--out")
        train_drafter(
            _checkpoint(model),
            out,
            seed=seed,
            steps=steps,
            device=device,
            progress=tell,
            told=lambda sentence: print(sentence, file=sys.stderr, flush=True),
        )
    if as_json:
        print_json(_card(out))
        return
    say(f"The drafter lies in {out}; its card is {out / 'README.md'}.")


@app.command()
def score(
    folder: Folder = PACKAGED,
    model: Model = REFERENCE,
    device: Device = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the card into the drafter's folder, over an older one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure how many of a drafter's tokens a model accepts, over held-out code, prose and instructions."""
    from cli.console.output import print_json, say

    needs_torch("autoinfer drafter score")
    from experiments.compute_device import compute_device
    from experiments.drafters.dflash.card import measure, write_card
    from experiments.drafters.dflash.card_text import render

    with _told():
        card = measure(_drafter(folder), _checkpoint(model), compute_device(device))
    if write:
        write_card(_drafter(folder), card)
    if as_json:
        print_json(card)
        return
    say(render(card).rstrip())


@app.command()
def show(folder: Folder = PACKAGED, as_json: Json = False) -> None:
    """Show what a drafter is, how it was made and what was measured of it."""
    from cli.console.output import print_json, say

    card = _card(_drafter(folder))
    if as_json:
        print_json(card)
    elif "acceptance" in card:
        from experiments.drafters.dflash.card_text import render

        say(render(card).rstrip())
    else:
        say(
            *(f"{name}: {value}" for name, value in card["shape"].items()),
            f"Its acceptance was not measured yet: autoinfer drafter score {folder}",
        )


def _card(folder: Path) -> dict[str, Any]:
    """Return a drafter's card, or only its shape when it has none."""
    from dataclasses import asdict

    from experiments.drafters.dflash.config import read_shape

    with _told():
        shape = asdict(read_shape(folder))
    try:
        card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        card = None
    return card if isinstance(card, dict) and "acceptance" in card else {"shape": shape}


def _drafter(folder: str) -> Path:
    """Return the folder that DIR names."""
    from experiments.drafters.packaged import packaged_drafter_path

    return packaged_drafter_path() if folder == PACKAGED else Path(folder)


def _checkpoint(model: str) -> Path:
    """Return the folder that `--model` names."""
    from experiments.reference_model.load import reference_model_path

    return reference_model_path() if model == REFERENCE else Path(model)


@contextmanager
def _told() -> Iterator[None]:
    """Tell what can't run as an error of the user's."""
    from configs.errors import AutoinferError
    from experiments.engines.port import Infeasible

    try:
        yield
    except Infeasible as refused:
        raise AutoinferError(refused.cause) from refused

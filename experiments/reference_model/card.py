"""Writes the model card of a reference checkpoint."""

from pathlib import Path

TRAINING_FILE = "training.json"
"""What the recipe noted while it trained."""


def write_card(folder: Path) -> None:
    """Score the checkpoint in `folder` and write `card.json` and `README.md` beside it."""
    raise NotImplementedError

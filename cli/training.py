"""What the commands that train share: the seed, PyTorch, a new folder for what they make."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from configs.errors import DiskFull, PermissionRefused, UsageError

Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the weights and of the order of the text.")]


def make_folder(folder: Path, option: str) -> None:
    """Make the folder that `option` names, before anything is trained that could not be kept there.

    Raises `PermissionRefused` and `DiskFull`, and `UsageError` where a file is in the way.
    """
    from experiments.disk import check_writable

    try:
        check_writable(folder, "trained weights")
    except (PermissionRefused, DiskFull) as refused:
        hint = f"Name another folder with {option}; nothing was trained."
        raise type(refused)(refused.message, hint) from refused


def needs_torch(command: str) -> None:
    """Raise `UsageError` when PyTorch or transformers is not installed."""
    missing = [package for package in ("torch", "transformers") if find_spec(package) is None]
    if missing:
        raise UsageError(
            f"{command} needs {' and '.join(missing)}, which this installation lacks.",
            "Install them with: pip install 'autoinfer[reference]'",
        )


def needs_new_folder(folder: Path, option: str) -> None:
    """Raise `UsageError` unless the folder that `option` names is empty or not there yet."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder} is not an empty folder.", f"Name a new one with {option}; nothing was changed."
        )

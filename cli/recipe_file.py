"""Reading a recipe that a command was given: the file, or the folder that it lies in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.recipe.recipe import Recipe

MOST_BYTES = 4 * 2**20
"""The largest file that is read as a recipe."""


def recipe_in(path: Path) -> Recipe:
    """The recipe of a file or folder; raises `UsageError` for anything else."""
    from agent.recipe.folder import RECIPE
    from agent.recipe.recipe import read_recipe
    from configs.errors import UsageError

    file = path / RECIPE if path.is_dir() else path
    hint = "A recipe is written by: autoinfer export C-ID --recipe"
    try:
        if file.stat().st_size > MOST_BYTES:
            raise UsageError(f"{file} is larger than {MOST_BYTES // 2**20} MiB: it is no recipe.", hint)
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}.", hint) from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is no text.", hint) from None
    return read_recipe(text, str(file))

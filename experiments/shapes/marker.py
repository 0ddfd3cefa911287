"""The file that says that a checkpoint has no weights. Imports nothing of the engines."""

from __future__ import annotations

from pathlib import Path

SHAPE_FILE = "shape.json"

DRAFTER_FOLDER = "dflash"
"""The folder of a shape that describes its DFlash drafter, which has no weights either."""


def is_shape(folder: Path) -> bool:
    """Whether a checkpoint's folder is a shape, without weights."""
    return (folder / SHAPE_FILE).is_file()


def drafter_of_shape(folder: Path) -> Path | None:
    """The folder of the drafter that a shape brings; None of a checkpoint with weights, and of a shape that
    was written before shapes brought one."""
    drafter = folder / DRAFTER_FOLDER
    return drafter if is_shape(folder) and is_shape(drafter) else None

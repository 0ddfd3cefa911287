"""The file that says that a checkpoint has no weights. Imports nothing of the engines."""

from __future__ import annotations

from pathlib import Path

SHAPE_FILE = "shape.json"


def is_shape(folder: Path) -> bool:
    """Whether a checkpoint's folder is a shape, without weights."""
    return (folder / SHAPE_FILE).is_file()

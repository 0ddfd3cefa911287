"""How a rented machine comes by a job's checkpoint, which its spec names by a folder of this host.

The packaged one is where the code is, and a model of the hub is fetched by whoever runs it. A shape, which
has no weights, is two small files, and two of its drafter, which can go with the job. Weights in any other
folder must lie where both machines reach them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from experiments.checkpoints.hub import CONFIG_FILE, pinned_in
from experiments.shapes.marker import DRAFTER_FOLDER, SHAPE_FILE, is_shape

_FILES_OF_SHAPE = (
    *(f"{DRAFTER_FOLDER}/{name}" for name in (CONFIG_FILE, SHAPE_FILE)),
    CONFIG_FILE,
    SHAPE_FILE,
)
"""The files of a shape, by their place in it. One that was written before shapes brought a drafter lacks
that one's."""


def folder_to_bring(model: str) -> Path | None:
    """The folder whose files the other machine lacks; None where it has or fetches the model by itself."""
    if not model.startswith(("/", "~")):
        return None
    folder = Path(model).expanduser()
    return None if pinned_in(folder) is not None else folder


def shape_texts(folder: Path) -> dict[str, str]:
    """The files of a shape, by their place in it; empty for a checkpoint with weights, and for what is no
    folder here."""
    if not is_shape(folder):
        return {}
    there = [name for name in _FILES_OF_SHAPE if (folder / name).is_file()]
    return {name: (folder / name).read_bytes().decode() for name in there}


def write_shape_texts(texts: Mapping[str, str], folder: Path) -> Path:
    """Write a shape's files into `folder`, which is made, as they were; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in _FILES_OF_SHAPE:
        if (text := texts.get(name)) is not None:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(text.encode())
    return folder

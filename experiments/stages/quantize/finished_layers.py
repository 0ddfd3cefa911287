"""What of a quantization is finished: a file a layer, so that one that was killed goes on where it was.

A folder is named by everything that decides what comes out, and so another input has another one. A file is
there whole or not at all. Imports torch.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

HEAD_NAME = "head"

_SQUARES = "squares"


@dataclass(frozen=True)
class Squares:
    """Sums over weights: of squared errors and of squares."""

    error: float = 0.0
    weight: float = 0.0

    def __add__(self, other: Squares) -> Squares:
        return Squares(self.error + other.error, self.weight + other.weight)


class FinishedLayers:
    """The finished layers of one quantization in `folder`, which is made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def place(self, layer: int | None) -> Path:
        """The file of a layer, None for the head."""
        return self.folder / f"{HEAD_NAME if layer is None else f'layer-{layer:04d}'}.safetensors"

    def put(self, layer: int | None, tensors: Mapping[str, Tensor], squares: Mapping[str, Squares]) -> None:
        """Keep what a layer came to, and with it that it is finished."""
        told = json.dumps({kind: asdict(sums) for kind, sums in squares.items()})
        _save(self.place(layer), tensors, {_SQUARES: told})

    def count(self, layers: int) -> int:
        """How many layers from the first on are finished, with the hidden states after them."""
        finished = 0
        while finished < layers and self.place(finished).is_file():
            finished += 1
        return finished

    def squares(self, layer: int | None) -> dict[str, Squares]:
        """The sums of a finished layer by kind of module."""
        with safe_open(self.place(layer), framework="pt") as stored:
            told = json.loads((stored.metadata() or {})[_SQUARES])
        return {kind: Squares(**sums) for kind, sums in told.items()}

    def put_states(self, before: int, states: Sequence[Tensor]) -> None:
        """Keep the hidden states before layer `before`. Those before earlier ones are deleted by `put`'s
        caller once they are of no use (`drop_states`)."""
        named = {f"{number:06d}": batch.contiguous() for number, batch in enumerate(states)}
        _save(self._states(before), named, {})

    def states(self, before: int) -> list[Tensor] | None:
        """The hidden states before a layer, None where there are none."""
        path = self._states(before)
        return list(dict(sorted(load_file(path).items())).values()) if path.is_file() else None

    def drop_states(self, before: int) -> None:
        """The hidden states before a layer are of no use any more."""
        self._states(before).unlink(missing_ok=True)

    def delete(self) -> None:
        """Everything was put together; nothing of it is needed any more."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _states(self, before: int) -> Path:
        return self.folder / f"states-{before:04d}.safetensors"


def _save(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    unfinished = path.with_suffix(".unfinished")
    save_file(dict(tensors), unfinished, metadata=dict(metadata) or None)
    unfinished.replace(path)

"""Stored distributions of a reference over the next token, to which other launches are compared.

A reference is a folder, written whole and then renamed into place:

    index.json         vocabulary, layout, and for each document its first row and number of rows
    log_probs.npy      layout `full` (vocabularies up to 8,192): float16 [rows, vocabulary]
    top_ids.npy        layout `top`: int32 [rows, 64], the most probable tokens
    top_log_probs.npy  layout `top`: float16 [rows, 64]
    rest_mass.npy      layout `top`: float32 [rows], the probability of all other tokens together

A row belongs to a position of a document; row i is the distribution of token i + 1 given tokens 0 … i.
float16 keeps a log-probability to 1 part in 2,048, some 1e-4 nats of noise in a KL; rows are normalised again
when read. With the layout `top` the KL is that of the distributions with all other tokens as one: a lower
bound (data processing inequality), tight where the reference is sure.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch

from experiments.disk import take_room
from experiments.engines.port import Infeasible
from experiments.engines.reference.reference_files import FULL_VOCABULARY_MAX, TOP_TOKENS, arrays_of

REST_MASS_MIN = 1e-10
"""Probability of the rest is taken as at least this, so that its logarithm is finite."""

_INDEX = "index.json"


class ReferenceWriter:
    """Writes a reference of known size; a context that renames it into place only when all went well.

    Raises `OSError` where its disk has no room for it, which says how much it takes.
    """

    def __init__(self, path: Path, vocabulary: int, rows: Mapping[str, int]) -> None:
        self._path = path
        self._building = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        self._vocabulary = vocabulary
        self._rows = dict(rows)
        self._first: dict[str, int] = {}
        total = 0
        for item, count in rows.items():
            self._first[item] = total
            total += count
        self._building.mkdir(parents=True)
        try:
            self._arrays = self._allocated(total)
        except BaseException:  # what is half taken would leave no room for the words that say so
            shutil.rmtree(self._building, ignore_errors=True)
            raise

    def _allocated(self, rows: int) -> list[np.memmap[Any, Any]]:
        """The arrays in their files, whose room is taken before they are written."""
        arrays = []
        for each in arrays_of(self._vocabulary):
            path = self._building / f"{each.name}.npy"
            shape = each.shape(rows)
            arrays.append(np.lib.format.open_memmap(path, mode="w+", dtype=each.kind, shape=shape))
            take_room(path, path.stat().st_size, "the token distributions of the reference")
        return arrays

    def write(self, item: str, offset: int, log_probs: torch.Tensor) -> None:
        """Store rows of a document from `offset` on: float32 `[rows, vocabulary]`."""
        first = self._first[item] + offset
        rows = slice(first, first + len(log_probs))
        if self._vocabulary <= FULL_VOCABULARY_MAX:
            self._arrays[0][rows] = log_probs.to(torch.float16).cpu().numpy()
            return
        top, ids = log_probs.topk(TOP_TOKENS, dim=-1)
        self._arrays[0][rows] = ids.to(torch.int32).cpu().numpy()
        self._arrays[1][rows] = top.to(torch.float16).cpu().numpy()
        self._arrays[2][rows] = (1 - top.exp().sum(-1)).clamp_min(0).cpu().numpy()

    def __enter__(self) -> ReferenceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for array in self._arrays:
            array.flush()
        self._arrays.clear()
        try:
            if kind is None:
                documents = {
                    item: {"first": self._first[item], "rows": count} for item, count in self._rows.items()
                }
                index = {"vocabulary": self._vocabulary, "documents": documents}
                (self._building / _INDEX).write_text(json.dumps(index), encoding="utf-8")
                if self._path.is_dir():
                    shutil.rmtree(self._path)
                self._building.rename(self._path)
        finally:
            shutil.rmtree(self._building, ignore_errors=True)


class ReferenceReader:
    """Reads a stored reference by memory map and compares distributions with it.

    Raises:
        Infeasible: kind `checkpoint`, when the reference is missing or of another vocabulary.
    """

    def __init__(self, path: Path, vocabulary: int) -> None:
        try:
            index = json.loads((path / _INDEX).read_text(encoding="utf-8"))
            arrays = [np.load(path / f"{each.name}.npy", mmap_mode="r") for each in arrays_of(vocabulary)]
        except (OSError, ValueError) as cause:
            raise Infeasible(
                "checkpoint", f"The reference distributions at {path} can't be read: {cause}."
            ) from None
        if index["vocabulary"] != vocabulary:
            raise Infeasible(
                "checkpoint",
                f"The reference distributions at {path} are over {index['vocabulary']} tokens, "
                f"this model's are over {vocabulary}.",
            )
        self._documents: dict[str, dict[str, int]] = index["documents"]
        self._arrays = arrays
        self._full = vocabulary <= FULL_VOCABULARY_MAX

    def holds(self, item: str, rows: int) -> bool:
        """Whether at least `rows` rows of this document are stored."""
        return item in self._documents and self._documents[item]["rows"] >= rows

    def compare(self, item: str, offset: int, log_probs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Compare rows of a document from `offset` on, float32 `[rows, vocabulary]`.

        Returns KL(reference‖these) in nats and whether the most probable token is the same, each `[rows]`;
        of tokens that tie, any is.
        """
        first = self._documents[item]["first"] + offset
        stored = [
            torch.from_numpy(np.array(array[first : first + len(log_probs)])).to(log_probs.device)
            for array in self._arrays
        ]
        if self._full:
            reference = torch.log_softmax(stored[0].float(), dim=-1)
            return kl_rows(reference, log_probs), same_best(stored[0], log_probs)
        ids, top, rest = stored[0].long(), stored[1].float(), stored[2]
        here = log_probs.gather(-1, ids)
        rest_here = (1 - here.exp().sum(-1)).clamp_min(REST_MASS_MIN)
        reference = torch.cat([top, rest.clamp_min(REST_MASS_MIN).log()[:, None]], dim=-1)
        ours = torch.cat([here, rest_here.log()[:, None]], dim=-1)
        known = here.max(-1).values == log_probs.max(-1).values
        return kl_rows(torch.log_softmax(reference, dim=-1), ours), known & same_best(stored[1], here)


def same_best(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Whether a most probable token of one row is a most probable one of the other: `[rows, n]` → `[rows]`.

    Logits of 16 bits tie, and which of those that tie comes first is not the same in every computation.
    """
    best = [row == row.max(-1, keepdim=True).values for row in (one, other)]
    return (best[0] & best[1]).any(-1)


def kl_rows(reference: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """KL(reference‖other) in nats of rows of log-probabilities: `[rows, n]`, `[rows, n]` → `[rows]`."""
    return (reference.exp() * (reference - other)).sum(-1)

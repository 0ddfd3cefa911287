"""Scores of one document at a time, kept as they are found, so that a scoring that is killed goes on.

A document's scores, of the layers that are scored beside each other, are what takes time, and a row; the
folder is named by the ranking they belong to (`KeptScores.name`). Numbers are read back to the bit. Imports
no torch.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.measurement.evidence import Json
from experiments.stages.pruning.kept_files import damaged, read_kept, write_kept

Row = tuple[float, ...]
"""The scores of one document: one for each layer, or for each candidate."""

_DIGEST_DIGITS = 32


@dataclass(frozen=True)
class KeptRows:
    """Rows of one ranking in `folder`, nowhere without it.

    `setting` is what else decides the last bits of a score where it is computed, such as threads: rows of
    another setting are not taken.
    """

    folder: Path | None = None
    setting: Mapping[str, Json] = field(default_factory=dict)

    def find(self, number: int, candidates: Sequence[int], gone: Sequence[int] = ()) -> Row | None:
        """The row of document `number`: the scores of `candidates` when the layers of `gone` went."""
        if self.folder is None:
            return None
        path = self._place(self.folder, number, candidates, gone)
        kept = read_kept(path)
        if kept is None:
            return None
        try:
            return _row(kept, self._asked(number, candidates, gone), len(candidates))
        except ValueError as error:
            damaged(path, error)
            return None

    def keep(self, row: Row, number: int, candidates: Sequence[int], gone: Sequence[int] = ()) -> None:
        """Keep a row, unless a score in it is not finite."""
        if self.folder is not None and all(map(math.isfinite, row)):
            asked = self._asked(number, candidates, gone)
            write_kept(self._place(self.folder, number, candidates, gone), {**asked, "row": list(row)})

    def _asked(self, number: int, candidates: Sequence[int], gone: Sequence[int]) -> dict[str, Json]:
        return {
            "document": number,
            "candidates": list(candidates),
            "gone": list(gone),
            "setting": dict(self.setting),
        }

    def _place(self, folder: Path, number: int, candidates: Sequence[int], gone: Sequence[int]) -> Path:
        asked = json.dumps(self._asked(number, candidates, gone), sort_keys=True)
        return folder / f"{hashlib.sha256(asked.encode()).hexdigest()[:_DIGEST_DIGITS]}.json"


def _row(kept: Json, asked: Mapping[str, Json], scores: int) -> Row:
    """The row in a file; raises `ValueError` for what is none, or the row of something else."""
    if not isinstance(kept, Mapping) or {name: kept.get(name) for name in asked} != asked:
        raise ValueError("it holds the scores of something else")
    found = kept.get("row")
    row = tuple(each for each in found if isinstance(each, float)) if isinstance(found, list) else ()
    if not isinstance(found, list) or not len(row) == len(found) == scores:
        raise ValueError(f"it does not hold {scores} scores")
    if not all(map(math.isfinite, row)):
        raise ValueError("it holds a score that is not finite")
    return row


NOTHING_KEPT = KeptRows()
"""Where rows are not kept."""

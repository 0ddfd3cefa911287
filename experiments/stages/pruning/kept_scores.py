"""Scores of layers, kept on this machine for later choices from the same ranking. Imports no torch.

Scoring reads the calibration text through the whole model; which layers go is then a matter of sorting. So
one more layer, or only layers of attention, costs nothing where the criterion scores a layer whatever else
goes (`Criterion.scores_once`). Beside the rankings lie the rows of those that are not whole (`kept_rows.py`).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from experiments.measurement.environment import package_version
from experiments.stages.pruning.kept_files import damaged, read_kept, write_kept
from experiments.stages.pruning.scores import Ranking, ranking_from

SCORING_VERSION = 2
"""Part of a name; raised when the same inputs would give other scores, or files another form."""

PACKAGES = ("torch", "transformers")

ROWS = ".rows"
"""How the name of a folder with rows ends."""

ROWS_KEPT_S = 7 * 86400.0
"""How long rows are kept that nothing was added to: of a scoring that was given up, or that scores anew in
each round and may be asked for one more layer."""


@dataclass(frozen=True)
class KeptScores:
    """A folder of rankings, each in a file named by what it was computed from; an unreadable one counts as
    absent."""

    folder: Path

    def name(
        self,
        checkpoint: Path,
        criterion: str,
        documents: Sequence[Sequence[int]],
        device: str,
        number_format: str,
    ) -> str:
        """The name of a ranking. A checkpoint is known by its place and by the size and time of its
        files: one that was written anew is another."""
        files = sorted((path.name, path.stat()) for path in checkpoint.iterdir() if path.is_file())
        inputs = {
            "version": SCORING_VERSION,
            "checkpoint": str(checkpoint.resolve()),
            "files": [[name, stat.st_size, stat.st_mtime_ns] for name, stat in files],
            "criterion": criterion,
            "documents": [list(document) for document in documents],
            "device": device.partition(":")[0],
            "number_format": number_format,
            "packages": {each: package_version(each) for each in PACKAGES},
        }
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()

    def find(self, name: str) -> Ranking | None:
        """The ranking of this name, of whatever choice it was made for; None where there is none."""
        kept = read_kept(self._place(name))
        if kept is None:
            return None
        try:
            if not isinstance(kept, dict):
                raise TypeError("it holds no ranking")
            return ranking_from(kept)
        except (ValueError, TypeError, KeyError) as error:
            damaged(self._place(name), error)
            return None

    def keep(self, name: str, ranking: Ranking) -> None:
        """Keep a ranking, in place of its rows. Where that fails (a full disk, say), the next one is computed
        again."""
        if write_kept(self._place(name), ranking.to_json()):
            shutil.rmtree(self.rows(name), ignore_errors=True)

    def rows(self, name: str) -> Path:
        """The folder for the rows of a ranking that is being scored."""
        return self.folder / f"{name}{ROWS}"

    def drop_old_rows(self) -> None:
        """Delete rows that nothing was added to for `ROWS_KEPT_S`."""
        for rows in self.folder.glob(f"*{ROWS}"):
            with suppress(OSError):  # another job may be deleting it
                if time.time() - rows.stat().st_mtime > ROWS_KEPT_S:
                    shutil.rmtree(rows, ignore_errors=True)

    def _place(self, name: str) -> Path:
        return self.folder / f"{name}.json"

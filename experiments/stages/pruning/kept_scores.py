"""Scores of layers, kept on this machine for later choices from the same ranking. Imports no torch.

Scoring reads the calibration text through the whole model; which layers go is then a matter of sorting. So
one more layer, or only layers of attention, costs nothing where the criterion scores a layer whatever else
goes (`Criterion.scores_once`).
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from experiments.measurement.environment import package_version
from experiments.stages.pruning.scores import Ranking, ranking_from

SCORING_VERSION = 1
"""Part of a name; raised when the same inputs would give other scores."""

PACKAGES = ("torch", "transformers")


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
        """The name of a ranking's file. A checkpoint is known by its place and by the size and time of its
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
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest() + ".json"

    def find(self, name: str) -> Ranking | None:
        """The ranking of this name, of whatever choice it was made for; None where there is none."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            return ranking_from(json.loads((self.folder / name).read_bytes()))
        return None

    def keep(self, name: str, ranking: Ranking) -> None:
        """Keep a ranking. Where that fails (a full disk, say), the next one is computed again."""
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self.folder, delete=False, encoding="utf-8") as file:
                try:
                    json.dump(ranking.to_json(), file)
                    file.close()
                    os.replace(file.name, self.folder / name)
                except OSError:
                    os.unlink(file.name)
                    raise

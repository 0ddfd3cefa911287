"""Runs of the proof of transfer that are kept as they end, so that what is ended goes on where it was.

A file of JSON, a line a run. Each line names the code and the tables that it was made by; lines of others are
not read, and what they were of is run anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from tests.proofs.transfer_page import Ran

ROOT = Path(__file__).parents[2]

MADE_BY = (
    "agent/**/*.py",
    "configs/**/*.py",
    "configs/**/*.yaml",
    "db/**/*.py",
    "experiments/**/*.py",
    "knowledge/**/*.py",
    "tests/proofs/counting.py",
    "tests/proofs/surrogate.py",
    "tests/proofs/transfer.py",
    "tests/proofs/transfer_tables.py",
    "docs/results/tables/*.csv",
)
"""What runs depend on, beside the libraries that are installed: what may be imported, and tables. How a page
is written is none of it."""

Key = tuple[str, str, int]
"""Pair, what was told, and seed."""

Run = tuple[str, Ran, Ran]
"""The kind of the pair, without knowledge, and with it."""


class KeptRuns:
    """The runs in a file, and how many of them were `reused`; None: nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.reused = 0

    @cached_property
    def made_by(self) -> str:
        """A digest of the code and the tables."""
        digest = hashlib.sha256()
        for path in sorted(path for pattern in MADE_BY for path in ROOT.glob(pattern)):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()

    def read(self, wanted: Iterable[Key]) -> dict[Key, Run]:
        """Of the wanted ones those that are there."""
        if self._path is None or not self._path.exists():
            return {}
        asked = set(wanted)
        found: dict[Key, Run] = {}
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                told = json.loads(line)
                key = (told["pair"], told["told"], told["seed"])
            except (json.JSONDecodeError, KeyError, TypeError):  # cut off, empty, or no run
                continue
            if told["made_by"] == self.made_by and key in asked:
                found[key] = (told["kind"], _ran(told["without"]), _ran(told["with"]))
        self.reused += len(found)
        return found

    def add(self, key: Key, run: Run) -> None:
        """Write one more, on a line of its own wherever the file ends."""
        if self._path is None:
            return
        kind, without, with_ = run
        told = {"pair": key[0], "told": key[1], "seed": key[2], "kind": kind, "made_by": self.made_by}
        line = json.dumps({**told, "without": asdict(without), "with": asdict(with_)})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}")


def _ran(told: dict[str, object]) -> Ran:
    return Ran(**{**told, "weights": tuple(told["weights"])})  # type: ignore[arg-type]

"""What a proof of transfer is asked on its command line."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.proofs.counting import at_least_one
from tests.proofs.transfer_page import how_it_ran


class Asked:
    """Seeds, processes, where the page goes, and the file of kept runs; its `parser` may be given more. Ends
    the process with one sentence where something can't be."""

    def __init__(self, module: str, description: str | None, output: Path) -> None:
        self.parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
        self.parser.add_argument("--seeds", type=at_least_one, default=10)
        self.parser.add_argument("--processes", type=at_least_one, default=min(2, os.cpu_count() or 1))
        self.parser.add_argument("--output", type=Path, default=output)
        self.parser.add_argument(
            "--runs", type=Path, help="keep each run in this file, and run none that is in it"
        )
        self._module = module
        self._begun = time.monotonic()

    def read(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """The arguments given, those of the process where there are none."""
        self._given = list(sys.argv[1:] if arguments is None else arguments)
        asked = self.parser.parse_args(self._given)
        if asked.runs is not None and (asked.runs.is_dir() or not asked.runs.parent.is_dir()):
            self.parser.error(f"runs can't be kept in {asked.runs}: name a file in a folder that is there")
        self._asked = asked
        return asked

    def how(self, reused: int) -> str:
        """How it ran until now, for the head of the page; `reused` runs were kept of earlier calls."""
        command = f"python -m {self._module} {shlex.join(self._given)}".strip()
        wall_s = time.monotonic() - self._begun
        return how_it_ran(command, self._asked.seeds, self._asked.processes, wall_s, reused)

"""A page of transfer beside the main one: other pairs of grounds, with the same campaigns and questions."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.proofs import transfer_known
from tests.proofs.counting import at_least_one
from tests.proofs.markdown import table
from tests.proofs.transfer import FIRST, REACHED, TOLD, TRIALS, ground, run, sizes_of
from tests.proofs.transfer_followed import section
from tests.proofs.transfer_page import (
    POISONED_COLUMNS,
    POISONS,
    TRUE_COLUMNS,
    Runs,
    how_it_ran,
    missed_of,
    pair_rows,
    prose,
    rows_of,
)
from tests.proofs.transfer_runs import KeptRuns
from tests.proofs.transfer_tables import LAUNCHED_TWICE, Pair

DOCS = Path(__file__).parents[2] / "docs" / "results"


@dataclass(frozen=True)
class Aside:
    """Such a page: the proof's module, the page's heading and its file's stem; what was found, how, and what
    of the grounds, in words with places for `missed`, `answers`, `first`, `trials`, and the rows of the
    first pair's grounds, `here` and `there`; which pairs; what else it tells of them."""

    module: str
    title: str
    stem: str
    found: str
    how: str
    rows: str
    pairs: Callable[[], Sequence[Pair]]
    beside: Callable[[], Sequence[str]] = tuple

    @property
    def path(self) -> Path:
        """Where the page lies."""
        return DOCS / f"{self.stem}.md"


def main_of(aside: Aside, description: str | None, arguments: Sequence[str] | None = None) -> int:
    """Run all its pairs and write the page; the exit code is 0 whatever was found."""
    parser = argparse.ArgumentParser(prog=f"python -m {aside.module}", description=description)
    parser.add_argument("--seeds", type=at_least_one, default=10)
    parser.add_argument("--processes", type=at_least_one, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--output", type=Path, default=aside.path)
    parser.add_argument("--runs", type=Path, help="keep each run in this file, and run none that is in it")
    given = list(sys.argv[1:] if arguments is None else arguments)
    asked = parser.parse_args(given)
    if asked.runs is not None and (asked.runs.is_dir() or not asked.runs.parent.is_dir()):
        parser.error(f"runs can't be kept in {asked.runs}: name a file in a folder that is there")
    begun = time.monotonic()
    chosen = aside.pairs()
    kept = KeptRuns(asked.runs)
    ran = run(chosen, asked.seeds, asked.processes, kept)
    command = f"python -m {aside.module} {shlex.join(given)}".strip()
    how = how_it_ran(command, asked.seeds, asked.processes, time.monotonic() - begun, kept.reused)
    asked.output.write_text(page(aside, ran, how, sizes_of(chosen)), encoding="utf-8")
    print(asked.output)
    return 0


def page(aside: Aside, ran: Runs, how: str, sizes: Mapping[str, int]) -> str:
    """The page, with its verdicts; `sizes` are the rows of each ground."""
    rows, poisoned = rows_of(ran)
    missed, answers = missed_of(rows, poisoned)
    first = aside.pairs()[0]
    counts: dict[str, object] = {
        "missed": missed,
        "answers": answers,
        "first": FIRST,
        "trials": TRIALS,
        "here": sizes[first.sources[0]],
        "there": sizes[first.target],
    }
    told = list(TOLD)
    parts = [
        f"# {aside.title}",
        f"- {how}\n- [What else is carried over, and how it is measured](transfer.md)",
        prose(aside.found, counts),
        prose(aside.how, counts),
        prose(aside.rows, counts),
        *aside.beside(),
        "## True knowledge",
        "Wanted: at most 0.6 of the trials without, by the point estimate.",
        table(TRUE_COLUMNS, rows),
        *section(aside.pairs(), ground, REACHED),
        *transfer_known.section(ran, LAUNCHED_TWICE),
        "## Poisoned knowledge",
        prose(POISONS, counts),
        table(POISONED_COLUMNS, poisoned),
        "## Pair by pair",
        "Mean trials to 95 % of the best gain.",
        table(("pair", "without", *told), pair_rows(ran, told)),
    ]
    return "\n\n".join(parts) + "\n"

"""What a campaign gains from one on another card: the same workloads on an H200 and on an H100.

python -m tests.proofs.transfer_hardware [--seeds N] [--processes N] [--output FILE]

Writes docs/results/transfer-hardware.md. Who runs, what is told and what is wanted are those of the proof of
transfer (`transfer.py`). Equal seeds give equal figures, whatever the number of processes.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.proofs.counting import at_least_one
from tests.proofs.markdown import table
from tests.proofs.transfer import FIRST, REACHED, TOLD, TRIALS, ground, run, sizes_of
from tests.proofs.transfer_followed import section
from tests.proofs.transfer_page import (
    POISONED_COLUMNS,
    POISONS,
    TRUE_COLUMNS,
    Runs,
    missed_of,
    pair_rows,
    prose,
    rows_of,
)
from tests.proofs.transfer_tables import OTHER_HARDWARE, WORKLOADS, across_hardware

OUTPUT = Path(__file__).parents[2] / "docs" / "results" / "transfer-hardware.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all pairs and write the page; the exit code is 0 whatever was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.transfer_hardware", description=__doc__)
    parser.add_argument("--seeds", type=at_least_one, default=10)
    parser.add_argument("--processes", type=at_least_one, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = list(sys.argv[1:] if arguments is None else arguments)
    asked = parser.parse_args(given)
    begun = time.monotonic()
    chosen = across_hardware()
    ran = run(chosen, asked.seeds, asked.processes)
    command = f"python -m tests.proofs.transfer_hardware {shlex.join(given)}".strip()
    text = page(ran, command, asked.seeds, asked.processes, time.monotonic() - begun, sizes_of(chosen))
    asked.output.write_text(text, encoding="utf-8")
    print(asked.output)
    return 0


def page(ran: Runs, command: str, seeds: int, processes: int, wall_s: float, sizes: Mapping[str, int]) -> str:
    """The page, with its verdicts."""
    rows, poisoned = rows_of(ran)
    missed, answers = missed_of(rows, poisoned)
    counts: dict[str, object] = {
        "missed": missed,
        "answers": answers,
        "first": FIRST,
        "trials": TRIALS,
        "here": sizes[next(iter(WORKLOADS))],
        "there": sizes[next(iter(OTHER_HARDWARE))],
    }
    told = list(TOLD)
    parts = [
        "# What a campaign gains from one on another card",
        f"- `{command}`: {seeds} seeds, {processes} processes, {wall_s:.0f} s\n"
        "- [What else is carried over, and how it is measured](transfer.md)",
        prose(_FOUND, counts),
        prose(_HOW, counts),
        prose(_ROWS, counts),
        "## True knowledge",
        "Wanted: at most 0.6 of the trials without, by the point estimate.",
        table(TRUE_COLUMNS, rows),
        *section(across_hardware(), ground, REACHED),
        "## Poisoned knowledge",
        prose(POISONS, counts),
        table(POISONED_COLUMNS, poisoned),
        "## Pair by pair",
        "Mean trials to 95 % of the best gain.",
        table(("pair", "without", *told), pair_rows(ran, told)),
    ]
    return "\n\n".join(parts) + "\n"


_FOUND = """**{missed} of {answers} answers below miss their target.** The H100's table was measured on 26
November 2026, and nothing of what is carried was chosen on it."""

_HOW = """A first campaign is {first} trials of the planner `ours` on one card; a second one is the same
planner on the other, with the same model, engine, versions and workload and at most {trials} trials, that
begins with the first one's outcomes, discounted for other hardware ([how](../ranking.md)), and, as one
change, with what that found best. Of the first card it knows the bandwidth of its memory, what its trial 0
took, and that trial's step by part."""

_ROWS = """The H200's [table](h200-9b.md) has {here} loads that ran without drafting, the
[H100's](h100-9b.md) {there} of these: among so few the best is found soon without any knowledge, and there
is little to save. Both cards are of one architecture with the same kernels; what a card of another one
would say is not measured. None of these rows drafts, so the poisons tell nothing false of acceptance here."""


if __name__ == "__main__":
    sys.exit(main())

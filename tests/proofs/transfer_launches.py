"""What a campaign gains from another workload's, on a table whose rows were launched twice.

python -m tests.proofs.transfer_launches [--seeds N] [--processes N] [--runs FILE] [--output FILE]

Writes docs/results/transfer-launches.md. Who runs, what is told and what is wanted are those of the proof of
transfer (`transfer.py`). Equal seeds give equal figures, whatever the number of processes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.proofs.markdown import table
from tests.proofs.transfer import REACHED, ground
from tests.proofs.transfer_aside import Aside, main_of
from tests.proofs.transfer_known import launches_apart
from tests.proofs.transfer_tables import LAUNCHED_TWICE, between

_FOUND = """**{missed} of {answers} answers below miss their target.** The table was measured on 27 November
2026, after all of what is carried had been chosen, and nothing was changed for it."""

_HOW = """A first campaign is {first} trials of the planner `ours` on one workload; a second one is the same
planner on another of the same model, card and versions with at most {trials} trials, that begins with the
first one's outcomes and, as one change, with what that found best ([how](../ranking.md))."""

_ROWS = """[The table](h200-9b-launches.md) is of Qwen3.5-9B's shape on H200s, over HTTP, with nothing loading
beside a measurement; rows that were launched twice are here alone. It was to say whether the targets that are
missed on [the older one](transfer.md), a single launch a row, are missed for its noise. It can't: where many
are served at once, two launches of the same lie further apart than the best rows do, so which rows are within
95 % of the best gain is chance in part; and in three of the eight workloads who knows nothing finds one in
the first trial, so that nothing is left to save there, and whatever is tried in place of it is a loss. Even
a first campaign on the very same ground, of the other launch of each row, does not meet the target
([there](transfer-again.md)): what is carried from another workload can hardly be asked to."""

COLUMNS = (
    "workload",
    "rows",
    "within 95 % of the best gain",
    "gain of the next best",
    "median pair of launches apart",
)


def beside() -> list[str]:
    """How well the best of each workload is known."""
    rows = []
    for name, place in LAUNCHED_TWICE.items():
        here = ground(name)
        measured = (row.latency for row in here.rows[1:] if row.latency is not None)
        gains = sorted((here.gain_of(each.centre_ms) for each in measured), reverse=True)
        within = sum(gain >= REACHED for gain in gains)
        counted = [str(len(here.rows)), str(within), f"{gains[1]:.0%}"]
        rows.append([name, *counted, f"{launches_apart()[place]:.1%}"])
    return [table(COLUMNS, rows)]


ASIDE = Aside(
    "tests.proofs.transfer_launches",
    "What a campaign gains from another workload's: two launches a row",
    "transfer-launches",
    _FOUND,
    _HOW,
    _ROWS,
    lambda: between(LAUNCHED_TWICE),
    beside,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all pairs and write the page; the exit code is 0 whatever was found."""
    return main_of(ASIDE, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())

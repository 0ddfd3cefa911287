"""What a campaign gains from one on another card: the same workloads on an H200 and on an H100.

python -m tests.proofs.transfer_hardware [--seeds N] [--processes N] [--runs FILE] [--output FILE]

Writes docs/results/transfer-hardware.md. Who runs, what is told and what is wanted are those of the proof of
transfer (`transfer.py`). Equal seeds give equal figures, whatever the number of processes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.proofs.transfer_aside import Aside, main_of
from tests.proofs.transfer_tables import across_hardware

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

ASIDE = Aside(
    "tests.proofs.transfer_hardware",
    "What a campaign gains from one on another card",
    "transfer-hardware",
    _FOUND,
    _HOW,
    _ROWS,
    across_hardware,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all pairs and write the page; the exit code is 0 whatever was found."""
    return main_of(ASIDE, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())

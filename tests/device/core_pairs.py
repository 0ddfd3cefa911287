"""Which processors of a machine share a core, whether it says so or not: timed, by work on two at once.

    python -m tests.device.core_pairs --of 0 1 17 --json pairs.json

A virtual machine may hide that two of its processors are threads of one core. Work on one then takes half as
long again while the other is busy, and no scheduler knows. For each processor asked about, a fixed piece of
work is timed on it alone, and then beside the same work on every other processor in turn; told are those
beside which it took at least `--slower` longer, and what the machine says of itself. Nothing else should
run. A processor and 63 others take some four seconds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Sequence
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median

from configs.core_shares import siblings_of, usable
from tests.benchmarks.arguments import above_zero, file_to_write

WORK = 200_000
"""Additions of a piece of work: some 10 ms."""

PIECES = 5
"""Pieces that are timed together."""

SLOWER = 0.2
"""The share by which work takes longer, from which on two processors are taken for threads of one core."""


def piece() -> int:
    """A piece of work for one processor."""
    total = 0
    for number in range(WORK):
        total += number
    return total


def timed_on(processor: int) -> float:
    """Seconds of a few pieces of work on a processor."""
    os.sched_setaffinity(0, {processor})
    piece()
    began = time.perf_counter()
    for _ in range(PIECES):
        piece()
    return time.perf_counter() - began


def _busy(processor: int, works: Event, ends: Event) -> None:
    os.sched_setaffinity(0, {processor})
    works.set()
    while not ends.is_set():
        piece()


def beside(processor: int, other: int) -> float:
    """Seconds of a piece of work on a processor while another is busy."""
    context = multiprocessing.get_context("fork")
    works, ends = context.Event(), context.Event()
    process = context.Process(target=_busy, args=(other, works, ends), daemon=True)
    process.start()
    works.wait()
    try:
        return timed_on(processor)
    finally:
        ends.set()
        process.join()


def slowdowns(processor: int, others: Sequence[int]) -> dict[int, float]:
    """By other processor, how much longer work takes on this one beside work on that, relative to alone."""
    alone = timed_on(processor)
    return {other: beside(processor, other) / alone - 1 for other in others}


def main(arguments: Sequence[str] | None = None) -> int:
    """Tell as asked on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = sorted(usable())
    parser.add_argument("--of", type=int, nargs="+", default=every[:2], choices=every, metavar="PROCESSOR")
    parser.add_argument("--slower", type=above_zero, default=SLOWER, metavar="SHARE")
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="write every slowdown there")
    given = parser.parse_args(arguments)
    found = {each: slowdowns(each, [other for other in every if other != each]) for each in given.of}
    for each, told in found.items():
        shared = sorted(other for other, share in told.items() if share >= given.slower)
        said = sorted(siblings_of(each) - {each})
        print(
            f"{each}: work takes {given.slower:.0%} longer or more beside {shared or 'none'}; the machine "
            f"says that it shares a core with {said or 'none'}; in the median {median(told.values()):+.1%}"
        )
    if given.json is not None:
        Path(given.json).write_text(json.dumps(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

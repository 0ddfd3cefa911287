"""What docs/tables.md tells of the table whose rows were launched twice, from the tables that are kept.

python -m tests.proofs.launches_compared

Prints, a fact a line: what the slower of two launches drew, how often the kernel that hung beside loads
served without them, whether loads beside a measurement shifted it, and how asking in the engine's process
differs.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping
from statistics import median

from agent.tables.cell import figures
from agent.tables.journal import Line, read_journal
from tests.proofs.transfer_tables import LAUNCHED_TWICE_FILE, TABLES

FEW = 1.05
"""Over which ratio of their times two launches count as apart."""

HUNG_BESIDE_LOADS, MANY = "humming", 64
"""The kernel that hung beside loads, and the requests at once at which it did."""

Place = tuple[int, int]
"""Requests at once and tokens of a prompt."""


def main() -> int:
    """Print all of it."""
    lines = list(read_journal(TABLES / f"{LAUNCHED_TWICE_FILE}.jsonl"))
    print(*slower_launches(lines), *served_without_loads(lines), sep="\n")
    for name in ("h200-9b-http", "h200-9b"):
        print(f"{name} over {LAUNCHED_TWICE_FILE}, a step at the median and at most, the first token:")
        for (at_once, tokens), (count, step, most, first) in sorted(ratios(name).items()):
            print(f"  {at_once} at once, {tokens} tokens: {count} rows, {step:.2f}, {most:.2f}, {first:.2f}")
    return 0


def slower_launches(lines: Iterable[Line]) -> list[str]:
    """How the slower of two launches differs from the other, of pairs that lie apart at 4 at once or more."""
    launched: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        if line["kind"] == "cell" and line["workload"]["concurrency"] > 1:
            launched.setdefault((line["workload"]["key"], line["load"]), []).append(line)
    pairs: dict[str, list[tuple[Line, Line]]] = {}
    for (workload, _), cells in launched.items():
        if len(cells) == 2:
            faster, slower = sorted(cells, key=served_s)
            if served_s(slower) > FEW * served_s(faster):
                pairs.setdefault(workload, []).append((faster, slower))
    every = [pair for found in pairs.values() for pair in found]
    cooler = sum(slower["gpu"]["power_w"] < faster["gpu"]["power_w"] for faster, slower in every)
    clocked = sum(_least_mhz(slower) >= _least_mhz(faster) for faster, slower in every)
    told = [
        f"{len(every)} pairs over {FEW - 1:.0%} apart: the slower drew less power in {cooler}, and its "
        f"lowest clock was as high or higher in {clocked}"
    ]
    for workload, found in pairs.items():
        time = median(served_s(slower) / served_s(faster) for faster, slower in found)
        energy = median(slower["gpu"]["energy_j"] / faster["gpu"]["energy_j"] for faster, slower in found)
        told.append(f"  {workload}: {len(found)} pairs, time {time:.2f}, energy {energy:.2f}")
    return told


def served_s(cell: Line) -> float:
    """Seconds from a cell's first request to its last token."""
    tokens = sum(
        1 + request.get("rest_tokens", len(request.get("gaps_us", ()))) for request in cell["requests"]
    )
    return tokens / figures(cell["requests"]).tokens_per_s


def _least_mhz(cell: Line) -> float:
    return float(cell["gpu"]["sm_mhz"]["min"])


def served_without_loads(lines: Iterable[Line]) -> list[str]:
    """How often the kernel that hung beside loads was launched, and served many at once."""
    own = [each for each in lines if _kernel(each) == HUNG_BESIDE_LOADS]
    many = sum(each["kind"] == "cell" and each["workload"]["concurrency"] == MANY for each in own)
    loads = sum(each["kind"] == "load" for each in own)
    failed = sum(each["kind"] == "failure" for each in own)
    return [f"{HUNG_BESIDE_LOADS}: {loads} launches, {many} cells of {MANY} at once, {failed} failures"]


def _kernel(line: Line) -> object:
    return line.get("configuration", {}).get("serving.linear_backend")


def ratios(name: str) -> dict[Place, tuple[int, float, float, float]]:
    """Of the rows that another table has too, by workload: how many, and its times over those here: of a step
    the median and the most, of the first token the median."""
    here, there = _rows(LAUNCHED_TWICE_FILE), _rows(name)
    found: dict[Place, list[tuple[float, float]]] = {}
    for key in here.keys() & there.keys():
        step, first = (
            float(there[key][column]) / float(here[key][column])
            for column in ("step_ms_median", "ttft_ms_median")
        )
        found.setdefault(key[1:], []).append((step, first))
    return {
        place: (
            len(each),
            median(step for step, _ in each),
            max(step for step, _ in each),
            median(first for _, first in each),
        )
        for place, each in found.items()
    }


def _rows(name: str) -> dict[tuple[str, int, int], Mapping[str, str]]:
    with (TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return {
            (row["load"], int(row["concurrency"]), int(row["prompt_tokens"])): row
            for row in csv.DictReader(file)
            if row["feasible"] == "yes"
        }


if __name__ == "__main__":
    sys.exit(main())

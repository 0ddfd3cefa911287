"""What launches in turn cost in power, by stored A/A pairs: how much more two launches differ that are
neighbours in time than two that ran side by side.

    python -m tests.proofs.in_turn_spread docs/results/aa/reference.jsonl

A pair's two launches took turns block by block. The control of a pair and the candidate of the next one are
of the same configuration and lie one pair apart, as the launches of a pair in turn do; their prompts differ
too.
With a spread that is r times as large the same interval takes about r² times the pairs.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median, stdev
from typing import Any

TPOT = 4
"""Where a stored sample has its TPOT, ms."""


def centres(pair: dict[str, Any]) -> dict[str, float]:
    """The log of the median TPOT of each arm."""
    return {
        each["arm"]: math.log(median(sample[TPOT] for sample in each["samples"])) for each in pair["launches"]
    }


def series_of(lines: Iterable[str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each series of a file with its pairs, those beside something else left out."""
    label, pairs = "", list[dict[str, Any]]()
    for line in map(json.loads, lines):
        if "series" in line:
            if pairs:
                yield label, pairs
            label, pairs = line["series"]["label"], []
        elif not line["differs"]:
            pairs.append(line)
    if pairs:
        yield label, pairs


def spreads(pairs: list[dict[str, Any]]) -> tuple[float, float]:
    """Standard deviations of log ratios: side by side, and between neighbouring pairs."""
    found = [centres(pair) for pair in pairs]
    beside = [each["candidate"] - each["control"] for each in found]
    in_turn = [later["candidate"] - earlier["control"] for earlier, later in pairwise(found)]
    return stdev(beside), stdev(in_turn)


def main(path: Path) -> None:
    """Print a line for each series of at least ten pairs."""
    with path.open() as lines:
        for label, pairs in series_of(lines):
            if len(pairs) < 10:
                continue
            beside, in_turn = spreads(pairs)
            apart_s = median(later["at_s"] - earlier["at_s"] for earlier, later in pairwise(pairs))
            ratio = in_turn / beside
            print(
                f"{label}: {len(pairs)} pairs, {apart_s:.0f} s apart; a ratio varies by {beside:.1%} side by "
                f"side and by {in_turn:.1%} in turn, {ratio:.1f} times, so {ratio**2:.1f} times the pairs"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))

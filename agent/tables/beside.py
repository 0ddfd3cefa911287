"""Batches of launches beside which other work ran: their times are of two programs, and count for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MOST_BESIDE_CORES = 0.2
"""Cores that other work may take beside a batch, in the mean: what a still machine does by itself."""

WITHHELD = ("cell", "load")
"""Kinds of lines that are not used of a disturbed batch."""

Line = dict[str, Any]


def beside_cores(batch: Line) -> float | None:
    """Cores that others took while a `batch` was served, in the mean; None where that was not told."""
    if "machine_processor_s" not in batch or batch["wall_s"] <= 0:
        return None
    busy_s: float = batch["machine_processor_s"] - batch["ours_processor_s"]
    wall_s: float = batch["wall_s"]
    return max(0.0, busy_s / wall_s)


def is_disturbed(batch: Line) -> bool:
    """Whether others took more beside a `batch` than its grid allows."""
    cores = beside_cores(batch)
    most: float = batch.get("most_beside_cores", MOST_BESIDE_CORES)
    return cores is not None and cores > most


def undisturbed(lines: Iterable[Line]) -> list[Line]:
    """The lines without what was measured in disturbed batches."""
    lines = list(lines)
    disturbed = {line["batch"] for line in lines if line["kind"] == "batch" and is_disturbed(line)}
    return [line for line in lines if line["kind"] not in WITHHELD or line.get("batch") not in disturbed]

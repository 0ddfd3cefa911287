"""What a load beside a measurement does to it: the same cells alone, beside a load, and after it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import nan
from statistics import fmean, median, stdev

from agent.tables.cell import figures
from agent.tables.journal import Line


@dataclass(frozen=True)
class SameRow:
    """One launch's cells of one workload under one circumstance: medians of TPOT and TTFT of each repetition,
    and whether the circumstance held from the beginning of each to its end."""

    load: str
    launch: str
    workload: str
    beside: str
    held: bool
    tpot_ms: tuple[float, ...]
    ttft_ms: tuple[float, ...]

    def against(self, alone: SameRow | None) -> float:
        """Mean of TPOT over that alone; NaN without one."""
        return nan if alone is None else fmean(self.tpot_ms) / fmean(alone.tpot_ms)

    @property
    def tpot_sd_ms(self) -> float:
        """Standard deviation of TPOT between repetitions; NaN for one."""
        return stdev(self.tpot_ms) if len(self.tpot_ms) > 1 else nan


def same_rows(lines: Iterable[Line]) -> list[SameRow]:
    """The repetitions of a journal, by launch, workload and circumstance, in the order they were measured."""
    groups: dict[tuple[str, str, str, str], list[Line]] = {}
    for line in lines:
        if line["kind"] == "cell" and line.get("same"):
            key = (line["load"], line["launch"], line["workload"]["key"], line["same"]["beside"])
            groups.setdefault(key, []).append(line)
    found = []
    for (load, launch, workload, beside), cells in groups.items():
        measured = [figures(cell["requests"]) for cell in cells]
        held = all({*cell["beside"].values()} == {beside} for cell in cells)
        tpot = tuple(median(each.tpot_ms) for each in measured)
        ttft = tuple(median(each.ttft_ms) for each in measured)
        found.append(SameRow(load, launch, workload, beside, held, tpot, ttft))
    return found

"""Synthetic tables, for tests of the code and nothing else: no GPU is meant by them."""

from __future__ import annotations

from pathlib import Path

from agent.replay.read import Asked, read_table
from agent.replay.table import Table

HEADER = "quantization.method,quantization.bits,serving.kernel,tpot_ms,quality,feasible,build_s,run_s"

LINES = (
    "none,,red,10.0 10.2 9.8,1.00,yes,0,60",
    "none,,blue,9.0 9.1 8.9,1.00,yes,0,60",
    "none,,green,8.0 8.2 7.8,1.00,yes,0,60",
    "awq,4,red,6.0 6.1 5.9,1.005,yes,300,50",
    "awq,4,blue,5.0 5.1 4.9,1.005,yes,300,50",
    "awq,4,green,4.0 4.1 3.9,1.005,yes,300,50",
    "awq,8,red,7.0 7.1 6.9,1.001,yes,300,50",
    "awq,8,blue,3.0 3.1 2.9,1.20,yes,300,50",
    "awq,8,green,,,no,300,20",
)
"""Trial 0 takes 10 ms; the best that keeps the quality 4 ms; 3 ms loses it; one does not run."""


def written(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "made-up.csv"
    path.write_text("\n".join((header, *lines)) + "\n", encoding="utf-8")
    return path


def table(folder: Path, asked: Asked | None = None, *lines: str) -> Table:
    return read_table(written(folder, *(lines or LINES)), asked)

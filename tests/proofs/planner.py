"""The proof of the planner: replays frozen tables, and writes docs/results/planner.md and its pictures.

python -m tests.proofs.planner [--only TEXT] [--seeds N] [--processes N] [--output FILE]

The table of Qwen3.5-4B's shape (h200-4b) is held out: nothing here reads it. Equal seeds give equal figures,
whatever the number of processes.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from agent.replay.course import Budget
from agent.replay.read import Asked as Chosen
from agent.replay.read import read_table
from agent.replay.regret_svg import regret_svg
from agent.replay.replay import Asked, Replayed, replay, workers
from tests.proofs.planner_page import Made, Part, page

RESULTS = Path(__file__).parents[2] / "docs" / "results"
OUTPUT = RESULTS / "planner.md"
TRIALS = 20


@dataclass(frozen=True)
class Frozen:
    """A table that is replayed: its file under docs/results/tables, the lines of one workload, a name for
    pictures, and the knobs whose labels are turned round besides."""

    file: str
    where: dict[str, str]
    name: str
    permute: tuple[str, ...] = ()

    @property
    def options(self) -> str:
        """As options of `autoinfer replay`."""
        return " ".join(f"--where {column}={value}" for column, value in self.where.items())


H200_9B = [
    Frozen(
        "h200-9b.csv",
        {"concurrency": str(concurrency), "prompt_tokens": str(prompt_tokens)},
        f"h200-9b-c{concurrency}-p{prompt_tokens}",
        ("serving.linear_backend",),
    )
    for prompt_tokens in (512, 3840)
    for concurrency in (1, 4, 16, 64)
]
"""The H200 table of Qwen3.5-9B's shape, each workload a table of its own."""

TABLES: tuple[Frozen, ...] = tuple(H200_9B)
PICTURED = "h200-9b-c1-p512"
"""The table whose regret is drawn where it is replayed: one request at a time, a campaign's default."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay every table and write the page; the exit code is 0 whatever was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.planner", description=__doc__)
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="tables whose name holds this, such as p512"
    )
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = list(sys.argv[1:] if arguments is None else arguments)
    asked = parser.parse_args(given)
    begun = time.monotonic()
    chosen = [frozen for frozen in TABLES if asked.only in frozen.name]
    with workers(asked.processes) as pool:
        parts = [_part(frozen, asked.seeds, pool) for frozen in chosen]
    write(parts, asked, shlex.join(given), time.monotonic() - begun)
    return 0


def write(parts: Sequence[Part], asked: argparse.Namespace, given: str, wall_s: float) -> None:
    """Write the page of these parts, and the picture of the first that is to be drawn."""
    pictured = next((part for part in parts if part.name == PICTURED), parts[0])
    picture = asked.output.with_name(f"planner-{pictured.name}.svg")
    made = Made(
        f"python -m tests.proofs.planner {given}".strip(),
        asked.seeds,
        TRIALS,
        asked.processes,
        wall_s,
        picture.name,
        tuple(frozen.name for frozen in TABLES if frozen.name not in {part.name for part in parts}),
    )
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    title = f"{pictured.name}: share of the best gain that is still missing"
    about = f"mean of {asked.seeds} seeds, {len(pictured.plain.table.rows)} configurations"
    picture.write_text(regret_svg(pictured.plain.scores, title, about), encoding="utf-8")
    asked.output.write_text(page(parts, made), encoding="utf-8")
    print(f"{asked.output} ({made.wall_s:.0f} s)")


def _part(frozen: Frozen, seeds: int, pool: Executor | None) -> Part:
    print(frozen.name, file=sys.stderr, flush=True)
    table = read_table(RESULTS / "tables" / frozen.file, Chosen(where=frozen.where))

    def replayed(planners: tuple[str, ...], permute: tuple[str, ...]) -> Replayed:
        return replay(table, Asked(planners, seeds, Budget(TRIALS), permute), pool)

    turned = replayed(("ours",), frozen.permute) if frozen.permute else None
    return Part(frozen.name, frozen.file, frozen.options, replayed((), ()), turned)


if __name__ == "__main__":
    sys.exit(main())

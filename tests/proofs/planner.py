"""The proof of the planner: replays frozen tables, and writes docs/results/planner.md and its pictures.

python -m tests.proofs.planner [--only TEXT] [--seeds N] [--processes N] [--output FILE] [--held-out]

The table of Qwen3.5-4B's shape (h200-4b) is held out: `--held-out` alone reads it, replays no other, and
writes docs/results/planner-held-out.md. Equal seeds give equal figures, whatever the number of processes.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

from agent.replay.course import Budget
from agent.replay.made_with import MadeWith, made_with
from agent.replay.read import Asked as Chosen
from agent.replay.read import read_table
from agent.replay.regret_svg import regret_svg
from agent.replay.replay import Asked, Replayed, replay, workers
from agent.replay.table import Table
from agent.replay.world import permuted
from configs.errors import UsageError
from tests.proofs.planner_calibration import WHOLE_TRIALS
from tests.proofs.planner_page import OWN, Made, Part, Turned, page
from tests.proofs.planner_tables import HELD_OUT, TABLES, Frozen

RESULTS = Path(__file__).parents[2] / "docs" / "results"
OUTPUT = RESULTS / "planner.md"
OUTPUT_HELD_OUT = RESULTS / "planner-held-out.md"
TRIALS = 20

PREDICTING_SEEDS = 5
"""Seeds of the replays that try a whole table, for predictions: more are of the same rows."""

PICTURED = ("reference", "h200-9b-c1-p512", "h200-4b-c1-p512")
"""Tables whose regret is drawn where they are replayed: a campaign's default, one request at a time."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay every table and write the page; the exit code is 0 whatever was found, 2 where `--only` names no
    table."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.planner", description=__doc__)
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="tables whose name holds this, such as p512"
    )
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--output", type=Path)
    parser.add_argument(
        "--held-out", action="store_true", help="the table that is held out, when all else is finished"
    )
    given = list(sys.argv[1:] if arguments is None else arguments)
    asked = parser.parse_args(given)
    begun, code = time.monotonic(), made_with()  # before the page changes the tree
    asked.tables = HELD_OUT if asked.held_out else TABLES
    asked.output = asked.output or (OUTPUT_HELD_OUT if asked.held_out else OUTPUT)
    chosen = [frozen for frozen in asked.tables if asked.only in frozen.name]
    if not chosen:
        names = ", ".join(each.name for each in asked.tables)
        parser.error(f"no table has {asked.only!r} in its name: {names}")
    with workers(asked.processes) as pool:
        parts = [_part(frozen, asked.seeds, pool) for frozen in chosen]
    write(parts, asked, shlex.join(given), time.monotonic() - begun, code)
    return 0


def write(
    parts: Sequence[Part], asked: argparse.Namespace, given: str, wall_s: float, code: MadeWith
) -> None:
    """Write the page of these parts, and the pictures of those that are to be drawn."""
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    pictured = [part for part in parts if part.name in PICTURED] or parts[:1]
    for part in pictured:
        title = f"{part.name}: share of the best gain that is still missing"
        about = f"mean of {asked.seeds} seeds, {len(part.plain.table.rows)} configurations"
        drawn = regret_svg(part.plain.scores, title, about)
        asked.output.with_name(picture_of(part)).write_text(drawn, encoding="utf-8")
    made = Made(
        f"python -m tests.proofs.planner {given}".strip(),
        asked.seeds,
        TRIALS,
        min(asked.seeds, PREDICTING_SEEDS),
        asked.processes,
        wall_s,
        tuple(map(picture_of, pictured)),
        code,
        tuple(frozen.name for frozen in asked.tables if frozen.name not in {part.name for part in parts}),
        asked.held_out,
    )
    asked.output.write_text(page(parts, made), encoding="utf-8")
    print(f"{asked.output} ({made.wall_s:.0f} s)")


def picture_of(part: Part) -> str:
    """The file of a part's picture."""
    return f"planner-{part.name}.svg"


def _part(frozen: Frozen, seeds: int, pool: Executor | None) -> Part:
    print(frozen.name, file=sys.stderr, flush=True)
    table = read_table(RESULTS / "tables" / frozen.file, Chosen(where=frozen.where))

    def replayed(
        planners: tuple[str, ...], seeds: int, trials: int, permute: tuple[str, ...] = ()
    ) -> Replayed:
        return replay(table, Asked(planners, seeds, Budget(trials), permute), pool)

    turned = tuple(
        Turned(kind, touched, replayed((OWN,), seeds, TRIALS, permute))
        for kind, permute in frozen.permute.items()
        if (touched := _touched(table, permute)) is not None
    )
    predicted = replayed((OWN,), min(seeds, PREDICTING_SEEDS), WHOLE_TRIALS)
    plain = replayed((), seeds, TRIALS)
    return Part(frozen.name, frozen.file, frozen.options, plain, turned, predicted)


def _touched(table: Table, knobs: tuple[str, ...]) -> bool | None:
    """Whether turning the labels of these knobs gives the best row another label in some seed; None where
    they have none that could be turned."""
    try:
        turned = [permuted(table, knobs, seed) for seed in range(10)]
    except UsageError:
        return None
    return any(each.best.configuration != table.best.configuration for each in turned)


if __name__ == "__main__":
    sys.exit(main())

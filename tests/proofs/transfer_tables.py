"""Grounds of which one is carried to another: workloads of the H200's table, and of the reference engine's
the packaged model, two pruned variants of it, and two halves of its rows."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.replay.read import Asked, read_table
from agent.replay.table import Table
from tests.proofs.surrogate import half

TABLES = Path(__file__).parents[2] / "docs" / "results" / "tables"

PRUNING = "pruning."
PLAIN_WAY: Mapping[str, tuple[str, ...]] = {
    "pruning.criterion": ("block_influence",),
    "pruning.method": ("depth",),
    "pruning.order": ("", "before_quantization"),
    "pruning.ranked_on": ("", "original"),
    "pruning.restrict": ("any",),
}
"""How the variants were pruned, by column."""


@dataclass(frozen=True)
class Pair:
    """A campaign on `source`, whose outcomes begin one on `target`; `kind` is what differs between them."""

    source: str
    target: str
    kind: str
    same_model: bool
    same_workload: bool


def grounds() -> dict[str, Table]:
    """All of them by name. The table of Qwen3.5-4B's shape (h200-4b) is held out: nothing here reads it."""
    found = {
        f"9b-c{concurrency}-p{tokens}": read_table(
            TABLES / "h200-9b.csv",
            Asked(where={"concurrency": str(concurrency), "prompt_tokens": str(tokens)}),
        )
        for tokens in (512, 3840)
        for concurrency in (1, 4, 16, 64)
    }
    path = TABLES / "reference.csv"
    found["reference"] = _slice(path, lambda line: line["pruning.method"] == "none", "none")
    for layers in ("1", "2"):
        found[f"pruned-{layers}"] = _slice(path, _is_pruned(layers), "none")
    whole = read_table(path)
    found["half-0"], found["half-1"] = half(whole, 0), half(whole, 1)
    return found


def pairs() -> list[Pair]:
    """Every two workloads of the H200's table that differ in one thing, both ways, and those of the reference
    engine's slices that ask the same questions."""
    found = []
    for tokens in (512, 3840):
        for one in (1, 4, 16, 64):
            for other in (1, 4, 16, 64):
                if one != other:
                    names = f"9b-c{one}-p{tokens}", f"9b-c{other}-p{tokens}"
                    found.append(Pair(*names, "concurrency", same_model=True, same_workload=False))
    for each in (1, 4, 16, 64):
        for one, other in ((512, 3840), (3840, 512)):
            names = f"9b-c{each}-p{one}", f"9b-c{each}-p{other}"
            found.append(Pair(*names, "prompt length", same_model=True, same_workload=False))
    variants = ("reference", "pruned-1", "pruned-2")
    found += [
        Pair(one, other, "model", same_model=False, same_workload=True)
        for one in variants
        for other in variants
        if one != other
    ]
    found += [
        Pair(f"half-{one}", f"half-{1 - one}", "rows", same_model=True, same_workload=True) for one in (0, 1)
    ]
    return found


def _is_pruned(layers: str) -> Callable[[Mapping[str, str]], bool]:
    wanted = {**PLAIN_WAY, "pruning.layers_removed": (layers,)}
    return lambda line: all(line[column] in values for column, values in wanted.items())


def _slice(path: Path, keeps: Callable[[Mapping[str, str]], bool], method: str) -> Table:
    """The rows that are kept, as those of a model of its own that nobody prunes: trial 0 is the row in which
    all else is as in the file's trial 0."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    first = next(line for line in lines if line["baseline"] == "yes")
    knobs = [name for name in first if "." in name and not name.startswith(("resolved.", PRUNING))]
    kept = [line for line in lines if keeps(line)]
    for line in kept:
        line["baseline"] = "yes" if all(line[name] == first[name] for name in knobs) else "no"
        for name in line:
            if name.startswith(PRUNING):
                line[name] = method if name == "pruning.method" else ""
    with TemporaryDirectory() as folder:
        made = Path(folder) / path.name
        with made.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, first.keys())
            writer.writeheader()
            writer.writerows(kept)
        return read_table(made)

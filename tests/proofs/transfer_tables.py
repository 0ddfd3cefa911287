"""Grounds of which one is carried to another: workloads of the H200's table, and of the reference engine's
the packaged model, two pruned variants of it, and two halves of its rows."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.replay.read import Asked, read_table
from agent.replay.table import Latency, Row, Table, with_requests
from agent.surrogate.carried import workload_distance
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


def _workloads(prefix: str) -> dict[str, tuple[int, int]]:
    return {
        f"{prefix}-c{concurrency}-p{tokens}": (concurrency, tokens)
        for tokens in (512, 3840)
        for concurrency in (1, 4, 16, 64)
    }


WORKLOADS: Mapping[str, tuple[int, int]] = _workloads("9b")
"""Requests at once and tokens of a prompt of the H200's table of Qwen3.5-9B's shape, by name."""

HELD_OUT: Mapping[str, tuple[int, int]] = _workloads("4b")
"""The same of Qwen3.5-4B's shape, the table that nothing was chosen on."""

OTHER_HARDWARE: Mapping[str, tuple[int, int]] = _workloads("h100")
"""The workloads of Qwen3.5-9B's shape on an H100: those of the H200's table on another card."""

LAUNCHED_TWICE: Mapping[str, tuple[int, int]] = _workloads("twice")
"""The workloads of Qwen3.5-9B's shape on H200s of which each row was launched twice."""

LAUNCHED_TWICE_FILE = "h200-9b-launches"
"""The table's name."""

LAUNCHES = ("first", "second")
"""What the two launches of its rows are called, in their order."""

LAUNCHED_ALONE: Mapping[str, tuple[int, int]] = {
    name: place for launch in LAUNCHES for name, place in _workloads(launch).items()
}
"""Its workloads by one of the two launches of each row."""

VARIANTS = ("reference", "pruned-1", "pruned-2")


@dataclass(frozen=True)
class Pair:
    """Campaigns on `sources`, whose outcomes begin one on `target`; `kind` is what differs between them."""

    sources: tuple[str, ...]
    target: str
    kind: str

    @property
    def name(self) -> str:
        """The pair in words."""
        from_ = self.sources[0] if len(self.sources) == 1 else f"{len(self.sources)} others"
        return f"{from_} → {self.target}"


def grounds() -> dict[str, Table]:
    """All by name but those of other hardware and those that are held out."""
    found = _of_workloads("h200-9b.csv", WORKLOADS)
    path = TABLES / "reference.csv"
    found["reference"] = _slice(path, lambda line: line["pruning.method"] == "none", "none")
    for layers in ("1", "2"):
        found[f"pruned-{layers}"] = _slice(path, _is_pruned(layers), "none")
    whole = read_table(path)
    found["half-0"], found["half-1"] = half(whole, 0), half(whole, 1)
    return found


def hardware_grounds() -> dict[str, Table]:
    """The workloads of the H100's table, by name."""
    return _of_workloads("h100-9b.csv", OTHER_HARDWARE)


def held_out_grounds() -> dict[str, Table]:
    """The workloads of the table that is held out, by name: read only where it is asked for."""
    return _of_workloads("h200-4b.csv", HELD_OUT)


def launched_twice_grounds() -> dict[str, Table]:
    """The workloads of the table whose rows were launched twice, by name, without rows launched once."""
    return _of_workloads(f"{LAUNCHED_TWICE_FILE}.csv", LAUNCHED_TWICE, {"launches": "2"})


def launched_alone_grounds() -> dict[str, Table]:
    """The same by one launch of each row alone, the first or the second, by name."""
    both = launched_twice_grounds()
    return {
        name: replace(
            both[twice], name=f"{both[twice].name}, {launch} launch", rows=_launch(both[twice], number)
        )
        for number, launch in enumerate(LAUNCHES)
        for name, twice in zip(_workloads(launch), LAUNCHED_TWICE, strict=True)
    }


def _launch(table: Table, number: int) -> tuple[Row, ...]:
    """The rows by one launch of the two that asked as many requests each, one after the other."""
    rows = []
    for row in table.rows:
        samples = () if row.latency is None else row.latency.samples_ms
        each, odd = divmod(len(samples), len(LAUNCHES))
        assert not odd, "each launch asks as many requests"
        own = samples[number * each : (number + 1) * each]
        rows.append(replace(row, latency=Latency.of_samples(own)) if own else row)
    return tuple(with_requests(rows))


def _of_workloads(
    file: str, workloads: Mapping[str, tuple[int, int]], where: Mapping[str, str] | None = None
) -> dict[str, Table]:
    return {
        name: read_table(
            TABLES / file,
            Asked(where={"concurrency": str(at_once), "prompt_tokens": str(tokens), **(where or {})}),
        )
        for name, (at_once, tokens) in workloads.items()
    }


def across_hardware() -> list[Pair]:
    """Each workload on one card after the same on the other, both ways."""
    same = list(zip(WORKLOADS, OTHER_HARDWARE, strict=True))
    return [Pair((one,), other, "H200 to H100") for one, other in same] + [
        Pair((other,), one, "H100 to H200") for one, other in same
    ]


def pairs() -> list[Pair]:
    """Those of the H200's table; the reference engine's model and its variants; and each half of its rows
    after the other."""
    found = between(WORKLOADS)
    found += [Pair((one,), other, "model") for one in VARIANTS for other in VARIANTS if one != other]
    found += [Pair((f"half-{one}",), f"half-{1 - one}", "rows") for one in (0, 1)]
    return found


def between(workloads: Mapping[str, tuple[int, int]]) -> list[Pair]:
    """Every two workloads of a table that differ in one thing, both ways; and each after all others."""
    found = []
    for one, (at_once, tokens) in workloads.items():
        for other, (as_many, as_long) in workloads.items():
            if one != other and tokens == as_long:
                found.append(Pair((one,), other, "concurrency"))
            if one != other and at_once == as_many:
                found.append(Pair((one,), other, "prompt length"))
    found += [
        Pair(tuple(one for one in workloads if one != other), other, "all other workloads")
        for other in workloads
    ]
    return found


def launched_again() -> list[Pair]:
    """Each workload by one launch of each row after the same by the other, both ways."""
    first, second = (list(_workloads(launch)) for launch in LAUNCHES)
    both = [*zip(first, second, strict=True), *zip(second, first, strict=True)]
    return [Pair((one,), other, "launched again") for one, other in both]


@dataclass(frozen=True)
class Alike:
    """What of two grounds is the same, and how far their workloads are apart."""

    model: bool = True
    workload: bool = True
    hardware: bool = True
    distance: float = 0.0


def alike(source: str, target: str) -> Alike:
    """What of these two is the same."""
    workloads = {**WORKLOADS, **OTHER_HARDWARE, **HELD_OUT, **LAUNCHED_TWICE, **LAUNCHED_ALONE}
    if source not in workloads:
        return Alike(model=source not in VARIANTS)
    distance = workload_distance(workloads[source], workloads[target])
    return Alike(
        workload=distance == 0,
        hardware=(source in OTHER_HARDWARE) == (target in OTHER_HARDWARE),
        distance=distance,
    )


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

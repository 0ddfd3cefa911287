"""Where the nodes of the whole graph stand: a layer for each generation, a lane for each lever. Pure.

Positions are cells: `column` to the right, `row` downwards. They are a function of the order in which nodes
came to be, and nothing is stored: a node's cell depends on older nodes alone, through what it came from when
it was made (a hypothesis' parents and lever, an experiment's hypothesis, a finding's first evidence), which
never changes. So whatever is added, nodes that stood keep standing.

Models and hardware, campaigns and knobs are the first three columns; the first one keeps every other row for
what only findings name, which moves once, should a campaign name it later. Each generation of hypotheses
(those derived from none, those derived from these, and so on) is a layer of three columns: hypotheses,
their experiments, what was found. A lane is a chain of blocks of rows; a lever gets another block when no
row of its blocks is free in a column. A new node takes the free row that is nearest to its parents.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from db.states import EvidenceRelation
from knowledge.graph.sketch import Sketch
from knowledge.graph.typed_graph import NodeKind, Relation

BLOCK_ROWS = 6
"""Rows of a block of a lane, the last of which stays empty, as the space between lanes."""

FIRST_LAYER = 3
"""Column of the first generation of hypotheses."""

LAYER_COLUMNS = 3
"""Columns of a generation: hypotheses, experiments, findings."""

_EARLY: dict[str, int] = {NodeKind.MODEL: 0, NodeKind.HARDWARE: 0, NodeKind.CAMPAIGN: 1, NodeKind.KNOB: 2}
_DERIVED = Relation.DERIVED_FROM.value
_TESTS = Relation.TESTS.value
_NAMED = frozenset({Relation.OPTIMIZES.value, Relation.RUNS_ON.value})
_EVIDENCE = frozenset(each.value for each in EvidenceRelation)


@dataclass(frozen=True, slots=True)
class Cell:
    """Where a node stands."""

    column: int
    row: int


def layout(graph: Sketch) -> dict[str, Cell]:
    """Return the cell of every node.

    `graph` has its nodes of each kind in the order in which they were made, and a finding's evidence in that
    of its verdicts, as `sketch_graph` has it.
    """
    cells: dict[str, Cell] = {}
    of_kind: dict[str, list[str]] = {}
    for node, data in graph.nodes.items():
        kind = data["kind"]
        of_kind.setdefault(kind, []).append(node)
        if kind in _EARLY:
            cells[node] = Cell(_EARLY[kind], 0)
    ties = _ties(graph)
    _stack(ties.named, cells)
    _place_hypotheses(graph, ties.parents, of_kind.get(NodeKind.HYPOTHESIS, []), cells)
    columns: dict[int, Column] = {}
    for node in of_kind.get(NodeKind.EXPERIMENT, ()):
        _beside(node, ties.tested.get(node, ()), FIRST_LAYER + 1, cells, columns)
    for node in of_kind.get(NodeKind.FINDING, ()):
        _beside(node, ties.evidence.get(node, ()), FIRST_LAYER + 2, cells, columns)
    return cells


@dataclass(frozen=True, slots=True)
class _Ties:
    """What positions depend on: models and hardware that a campaign names; a hypothesis' parents; what an
    experiment tests; a finding's evidence."""

    named: set[str] = field(default_factory=set)
    parents: dict[str, list[str]] = field(default_factory=dict)
    tested: dict[str, list[str]] = field(default_factory=dict)
    evidence: dict[str, list[str]] = field(default_factory=dict)


def _ties(graph: Sketch) -> _Ties:
    ties = _Ties()
    for source, target, relation in graph.edges:
        if relation in _NAMED:
            ties.named.add(target)
        elif relation == _DERIVED:
            ties.parents.setdefault(source, []).append(target)
        elif relation == _TESTS:
            ties.tested.setdefault(source, []).append(target)
        elif relation in _EVIDENCE:
            ties.evidence.setdefault(target, []).append(source)
    return ties


def _stack(named: Collection[str], cells: dict[str, Cell]) -> None:
    """Put what stands in the first columns below each other."""
    counters = {column: count() for column in set(_EARLY.values())}
    only_found = count()
    for node, cell in cells.items():
        if cell.column > 0:
            cells[node] = Cell(cell.column, next(counters[cell.column]))
        elif node in named:
            cells[node] = Cell(0, 2 * next(counters[0]))
        else:
            cells[node] = Cell(0, 2 * next(only_found) + 1)


def _place_hypotheses(
    graph: Sketch, parents: Mapping[str, list[str]], hypotheses: list[str], cells: dict[str, Cell]
) -> None:
    generations = _generations(parents, hypotheses)
    lanes: dict[str, _Lane] = {}
    blocks = count()
    for node in hypotheses:
        lane = lanes.setdefault(graph.nodes[node].get("lever", ""), _Lane([], {}))
        generation = generations[node]
        near = next((cells[each].row for each in parents.get(node, ()) if each in cells), 0)
        row = lane.take(generation, near)
        if row is None:
            lane.add(next(blocks))
            row = lane.take(generation, near)
            assert row is not None
        cells[node] = Cell(FIRST_LAYER + LAYER_COLUMNS * generation, row)


@dataclass
class _Lane:
    """Blocks of a lever, and the rows of them that are free, in order, by generation."""

    blocks: list[int]
    free: dict[int, list[int]]

    def add(self, block: int) -> None:
        """Make another block part of the lane, free in all generations."""
        self.blocks.append(block)
        for rows in self.free.values():
            for row in _rows(block):
                insort(rows, row)

    def take(self, generation: int, near: int) -> int | None:
        """Take the free row nearest to `near`, the upper of two that are as near; None where none is free."""
        if generation not in self.free:
            self.free[generation] = sorted(row for block in self.blocks for row in _rows(block))
        rows = self.free[generation]
        if not rows:
            return None
        place = bisect_left(rows, near)
        around = [each for each in (place - 1, place) if 0 <= each < len(rows)]
        return rows.pop(min(around, key=lambda each: abs(rows[each] - near)))


def _rows(block: int) -> range:
    return range(block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS - 1)


@dataclass
class Column:
    """Rows of a column that are taken, each with the next one that may be free below and above it."""

    below: dict[int, int] = field(default_factory=dict)
    above: dict[int, int] = field(default_factory=dict)

    def take(self, near: int) -> int:
        """Take the free row nearest to `near`, the lower of two that are as near."""
        down, up = _free(self.below, near), _free(self.above, near)
        row = up if up >= 0 and near - up < down - near else down
        self.below[row], self.above[row] = row + 1, row - 1
        return row


def _free(links: dict[int, int], row: int) -> int:
    """The first free row from this one on; what was walked is linked to it, so that runs are walked once."""
    walked = []
    while row in links:
        walked.append(row)
        row = links[row]
    for each in walked:
        links[each] = row
    return row


def _beside(
    node: str, parents: Iterable[str], column: int, cells: dict[str, Cell], columns: dict[int, Column]
) -> None:
    """Put a node right of the first parent that stands, or into this column where none does."""
    parent = next((cells[each] for each in parents if each in cells), None)
    if parent is not None:
        column = parent.column + 1
    row = columns.setdefault(column, Column()).take(parent.row if parent else 0)
    cells[node] = Cell(column, row)


def _generations(parents: Mapping[str, list[str]], hypotheses: Iterable[str]) -> dict[str, int]:
    """One more than the latest of the parents, which are older and so come before."""
    found: dict[str, int] = {}
    for node in hypotheses:
        found[node] = max((found.get(each, -1) for each in parents.get(node, ())), default=-1) + 1
    return found

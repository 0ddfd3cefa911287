"""Where the nodes of the whole graph stand: a layer for each generation, a lane for each lever. Pure.

Positions are cells: `column` to the right, `row` downwards. They are a function of the order in which nodes
came to be, and nothing is stored: a node's cell depends on older nodes alone, through what it came from when
it was made (a hypothesis' parents and lever, an experiment's hypothesis, a finding's first evidence), which
never changes. So whatever is added, nodes that stood keep standing.

Models and hardware, campaigns and knobs are the first three columns; the first one keeps every other row for
what only findings name, which moves once, should a campaign name it later. Each generation of hypotheses
(`networkx.topological_generations` of what they are derived from) is a layer of three columns: hypotheses,
their experiments, what was found. A lane is a chain of blocks of rows; a lever gets another block when no
row of its blocks is free in a column. A new node takes the free row that is nearest to its parents.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

import networkx as nx

from knowledge.graph import Graph, NodeKind, Relation

BLOCK_ROWS = 6
"""Rows of a block of a lane, the last of which stays empty, as the space between lanes."""

FIRST_LAYER = 3
"""Column of the first generation of hypotheses."""

LAYER_COLUMNS = 3
"""Columns of a generation: hypotheses, experiments, findings."""

_EARLY: dict[str, int] = {NodeKind.MODEL: 0, NodeKind.HARDWARE: 0, NodeKind.CAMPAIGN: 1, NodeKind.KNOB: 2}
_NAMED = frozenset({Relation.OPTIMIZES.value, Relation.RUNS_ON.value})
_EVIDENCE = frozenset(
    each.value for each in (Relation.SUPPORTS, Relation.CONTRADICTS, Relation.REPLICATES, Relation.INFORMS)
)


@dataclass(frozen=True, slots=True)
class Cell:
    """Where a node stands."""

    column: int
    row: int


def layout(graph: Graph) -> dict[str, Cell]:
    """Return the cell of every node.

    `graph` has its nodes of each kind in the order in which they were made, and a finding's evidence in that
    of its verdicts, as `build_graph` has it.
    """
    cells: dict[str, Cell] = {}
    of_kind: dict[str, list[str]] = {}
    for node, kind in graph.nodes(data="kind"):
        of_kind.setdefault(kind, []).append(node)
        if kind in _EARLY:
            cells[node] = Cell(_EARLY[kind], 0)
    _stack(graph, cells)
    _place_hypotheses(graph, of_kind.get(NodeKind.HYPOTHESIS, []), cells)
    columns: dict[int, Column] = {}
    for node in of_kind.get(NodeKind.EXPERIMENT, ()):
        _beside(node, _targets(graph, node, Relation.TESTS), FIRST_LAYER + 1, cells, columns)
    for node in of_kind.get(NodeKind.FINDING, ()):
        _beside(node, _evidence(graph, node), FIRST_LAYER + 2, cells, columns)
    return cells


def _stack(graph: Graph, cells: dict[str, Cell]) -> None:
    """Put what stands in the first columns below each other."""
    counters = {column: count() for column in set(_EARLY.values())}
    only_found = count()
    for node, cell in cells.items():
        if cell.column > 0:
            cells[node] = Cell(cell.column, next(counters[cell.column]))
        elif any(said in _NAMED for _, _, said in graph.in_edges(node, data="relation")):
            cells[node] = Cell(0, 2 * next(counters[0]))
        else:
            cells[node] = Cell(0, 2 * next(only_found) + 1)


def _place_hypotheses(graph: Graph, hypotheses: list[str], cells: dict[str, Cell]) -> None:
    generations = _generations(graph, hypotheses)
    lanes: dict[str, _Lane] = {}
    blocks = count()
    for node in hypotheses:
        lane = lanes.setdefault(graph.nodes[node].get("lever", ""), _Lane([], {}))
        generation = generations[node]
        parents = [each for each in _targets(graph, node, Relation.DERIVED_FROM) if each in cells]
        near = cells[parents[0]].row if parents else 0
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


def _generations(graph: Graph, hypotheses: Iterable[str]) -> dict[str, int]:
    derived: Graph = nx.DiGraph()
    derived.add_nodes_from(hypotheses)
    for child in hypotheses:
        derived.add_edges_from((parent, child) for parent in _targets(graph, child, Relation.DERIVED_FROM))
    layers = enumerate(nx.topological_generations(derived))
    return {node: number for number, layer in layers for node in layer}


def _targets(graph: Graph, node: str, relation: Relation) -> list[str]:
    word = relation.value
    return [target for target, edges in graph.adj[node].items() if word in edges]


def _evidence(graph: Graph, finding: str) -> list[str]:
    return [source for source, edges in graph.pred[finding].items() if not _EVIDENCE.isdisjoint(edges)]

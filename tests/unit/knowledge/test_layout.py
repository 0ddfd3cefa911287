"""Positions of the whole graph: whatever is added, nodes that stood keep standing; no two share a cell."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from knowledge.graph.layout import BLOCK_ROWS, FIRST_LAYER, LAYER_COLUMNS, layout
from knowledge.graph.sketch import Sketch
from knowledge.graph.typed_graph import NodeKind, Relation

LEVERS = ("threads", "pruning", "drafting", "dtype")

Step = tuple[int, int, int, int]
"""What is added (hypothesis, experiment, finding, evidence), and three numbers that choose."""

steps = st.lists(st.tuples(*(st.integers(0, 3), *[st.integers(0, 1000)] * 3)), max_size=60)


def grown(added: list[Step]) -> Sketch:
    """A graph after these steps, its nodes of each kind in the order of the steps."""
    graph = Sketch()
    node(graph, "C-1", NodeKind.CAMPAIGN)
    for kind, name, relation in (
        (NodeKind.MODEL, "model:m", Relation.OPTIMIZES),
        (NodeKind.HARDWARE, "hardware:h", Relation.RUNS_ON),
    ):
        node(graph, name, kind)
        edge(graph, "C-1", name, relation)
    made: dict[str, list[str]] = {"H": [], "E": [], "F": []}
    for what, *choice in added:
        ADD[what](graph, made, *choice)
    return graph


def node(graph: Sketch, name: str, kind: NodeKind, **attributes: str) -> None:
    graph.add_node(name, kind.value, name, **attributes)


def edge(graph: Sketch, source: str, target: str, relation: Relation) -> None:
    graph.add_edge(source, target, relation.value)


def hypothesis(graph: Sketch, made: dict[str, list[str]], lever: int, parent: int, derived: int) -> None:
    name = f"H-{len(made['H']) + 1:03d}"
    node(graph, name, NodeKind.HYPOTHESIS, lever=LEVERS[lever % len(LEVERS)])
    node(graph, f"knob:{lever % 7}", NodeKind.KNOB)
    edge(graph, name, f"knob:{lever % 7}", Relation.CHANGES)
    if made["H"] and derived % 3:
        edge(graph, name, made["H"][parent % len(made["H"])], Relation.DERIVED_FROM)
    made["H"].append(name)


def experiment(graph: Sketch, made: dict[str, list[str]], tested: int, *_: int) -> None:
    name = f"E-{len(made['E']) + 1:04d}"
    node(graph, name, NodeKind.EXPERIMENT)
    if made["H"]:
        edge(graph, name, made["H"][tested % len(made["H"])], Relation.TESTS)
    made["E"].append(name)


def finding(graph: Sketch, made: dict[str, list[str]], found: int, older: int, supersedes: int) -> None:
    if not made["E"]:
        return
    name = f"F-{len(made['F']) + 1:03d}"
    node(graph, name, NodeKind.FINDING)
    edge(graph, name, "hardware:h", Relation.SCOPED_TO)
    edge(graph, made["E"][found % len(made["E"])], name, Relation.SUPPORTS)
    if made["F"] and supersedes % 2:
        edge(graph, name, made["F"][older % len(made["F"])], Relation.SUPERSEDES)
    made["F"].append(name)


def evidence(graph: Sketch, made: dict[str, list[str]], found: int, bears_on: int, _: int) -> None:
    if made["F"]:
        source, target = made["E"][found % len(made["E"])], made["F"][bears_on % len(made["F"])]
        edge(graph, source, target, Relation.REPLICATES)


ADD: tuple[Callable[..., None], ...] = (hypothesis, experiment, finding, evidence)


@given(steps, steps)
def test_whatever_is_added_moves_no_node_that_stood(before: list[Step], more: list[Step]) -> None:
    old, new = layout(grown(before)), layout(grown(before + more))
    assert {name: new[name] for name in old} == old


@given(steps)
def test_every_node_has_a_cell_of_its_own(added: list[Step]) -> None:
    graph = grown(added)
    cells = layout(graph)
    assert set(cells) == set(graph.nodes)
    assert len(set(cells.values())) == len(cells)


def test_layers_are_generations_and_lanes_are_levers() -> None:
    graph = grown([(0, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1), (1, 2, 0, 0), (2, 0, 0, 0)])
    cells = layout(graph)
    assert [cells[f"H-00{number}"].column for number in (1, 2, 3)] == [
        FIRST_LAYER,
        FIRST_LAYER,
        FIRST_LAYER + LAYER_COLUMNS,
    ]
    assert cells["H-001"].row // BLOCK_ROWS != cells["H-002"].row // BLOCK_ROWS
    assert cells["H-003"].row == cells["H-001"].row
    assert cells["E-0001"] == type(cells["E-0001"])(cells["H-003"].column + 1, cells["H-003"].row)
    assert cells["F-001"].column == cells["E-0001"].column + 1

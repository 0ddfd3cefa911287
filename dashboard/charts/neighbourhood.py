"""A neighbourhood as a picture: a column for each kind, nodes beside what they came from. Pure.

The node in the middle stands at the top, with what it came from and what came of its tests. Below that a
node takes the free row nearest to its parents, in the order in which nodes were made, so that what is added
later moves nothing that stands, but for more of that first part. What a finding is scoped to stands in the
tree, not as lines across everything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass

from dashboard.rendering.figures import percent
from dashboard.rendering.linking import without_beside
from db.states import EvidenceRelation
from knowledge.figures import signed
from knowledge.graph.layout import Column
from knowledge.graph.tree import WORDS, strongest
from knowledge.graph.typed_graph import Graph, NodeKind, Relation

WIDTH = 968
TOP, ROW = 58, 32
"""Height of the first row and from one to the next, in units of the picture."""

HEADS: tuple[tuple[int, int, str], ...] = (
    (0, 140, "Models and hardware"),
    (168, 124, "Knobs"),
    (320, 228, "Hypotheses"),
    (612, 110, "Experiments"),
    (790, 178, "Findings"),
)
"""Left edge, width and title of each column."""

_COLUMN: dict[str, int] = {
    NodeKind.MODEL: 0,
    NodeKind.HARDWARE: 0,
    NodeKind.CAMPAIGN: 0,
    NodeKind.KNOB: 1,
    NodeKind.HYPOTHESIS: 2,
    NodeKind.EXPERIMENT: 3,
    NodeKind.FINDING: 4,
}
_LETTERS = 6.5
"""Width of a letter, about, for where edges begin and texts are cut."""

_BOLD_LETTERS = 7.6
"""The same where the node in the middle is written bold."""

_ICON = 19
_ABOVE = 6
"""How far above the middle of its edge a word stands, whose letters go below its line."""

_TOLD = frozenset(
    each.value for each in (Relation.SUPPORTS, Relation.REFUTES, Relation.CONTRADICTS, Relation.SUPERSEDES)
)
_EVIDENCE = tuple(each.value for each in EvidenceRelation)
_SCOPE = frozenset({Relation.CHANGES.value, Relation.SCOPED_TO.value})
_AGAINST = frozenset({Relation.REFUTES.value, Relation.CONTRADICTS.value})


_CHANGING = re.compile(r"^Changing (?:\w+\.)*")
"""What many findings begin with, and would have no room to go on from."""


@dataclass(frozen=True)
class Shown:
    """A node: where its text begins, its shape (a symbol's name, or None) and what it looks like."""

    id: str
    x: int
    y: int
    text: str
    title: str
    shape: str | None
    looks: str


@dataclass(frozen=True)
class Line:
    """An edge as a path, with its relation where it is told and the place of that text."""

    id: str
    path: str
    looks: str
    told: str | None
    x: float
    y: float


@dataclass(frozen=True)
class Picture:
    """The neighbourhood, `height` units high and `WIDTH` wide."""

    nodes: tuple[Shown, ...]
    lines: tuple[Line, ...]
    height: int
    heads: tuple[tuple[int, int, str], ...] = HEADS


def picture(graph: Graph, middle: str) -> Picture:
    """Draw a neighbourhood around its middle."""
    story = _story(graph, middle)
    rows = _rows(graph, story)
    nodes = {node: _shown(graph, node, rows[node], middle, node in story) for node in rows}
    lines = []
    for source, target in sorted({(one, other) for one, other in graph.edges()}):
        relation = strongest(list(graph.adj[source][target]))
        if source == target or (relation in _SCOPE and _is_found(graph, source)):
            continue
        lines.append(_line(nodes[source], nodes[target], relation, middle, {source, target} <= story))
    lines.sort(key=lambda line: "on" in line.looks)
    deepest = max((each.y for each in nodes.values()), default=TOP)
    return Picture(tuple(nodes.values()), tuple(lines), deepest + 24)


def shape_of(data: dict[str, str]) -> str | None:
    """The symbol of a node's state: for a finding its own, for what has no state none."""
    kind = data["kind"]
    if kind == NodeKind.FINDING:
        return "finding"
    if kind not in (NodeKind.HYPOTHESIS, NodeKind.EXPERIMENT):
        return None
    state = data.get("outcome") or data.get("state", "")
    if state in ("supported", "refuted", "inconclusive", "confounded", "infeasible", "testing"):
        return state
    return "testing" if state == "running" else "infeasible" if state in ("failed", "withdrawn") else "queued"


def effect_of(data: dict[str, float | str]) -> str:
    """The effect of an experiment or a finding in words, without its interval."""
    value = data.get("effect")
    if not isinstance(value, float):
        return ""
    return f"{signed(100 * value)} points" if data.get("metric") == "task_correct" else percent(value)


def _rows(graph: Graph, story: Set[str]) -> dict[str, int]:
    columns = [Column() for _ in HEADS]
    found: dict[str, int] = {}
    for node, kind in sorted(
        graph.nodes(data="kind"), key=lambda each: (each[0] not in story, _COLUMN[each[1]])
    ):
        column = _COLUMN[kind]
        near = 0 if column < 2 else next((found[each] for each in _parents(graph, node) if each in found), 0)
        found[node] = columns[column].take(near)
    return found


def _story(graph: Graph, middle: str) -> set[str]:
    """The node in the middle, what its tests came to, and all that these came from, up to the first claim."""
    tests = _by(graph.pred[middle], Relation.TESTS)
    todo = [
        middle,
        *tests,
        *(found for each in (middle, *tests) for found in _by(graph.adj[each], *_EVIDENCE)),
    ]
    story: set[str] = set()
    while todo:
        node = todo.pop()
        if node not in story:
            story.add(node)
            todo += _by(graph.adj[node], Relation.TESTS, Relation.DERIVED_FROM)
            if graph.nodes[node]["kind"] == NodeKind.FINDING:
                todo += _by(graph.pred[node], *_EVIDENCE)
    return story


def _by(near: Mapping[str, Collection[str]], *relations: str) -> list[str]:
    """The neighbours that one of these relations leads to."""
    return [other for other, edges in near.items() if any(each in edges for each in relations)]


def _parents(graph: Graph, node: str) -> list[str]:
    """What a node stands beside: what it is derived from, tests or was first shown by, then its knobs."""
    kind = graph.nodes[node]["kind"]
    if kind == NodeKind.FINDING:
        return [each for each in graph.pred[node] if graph.nodes[each]["kind"] == NodeKind.EXPERIMENT]
    wanted = (Relation.TESTS, Relation.DERIVED_FROM, Relation.CHANGES)
    return [
        other for relation in wanted for other, edges in graph.adj[node].items() if relation.value in edges
    ]


def _is_found(graph: Graph, node: str) -> bool:
    """Whether this is a finding beside its evidence, from where its scope follows."""
    return graph.nodes[node]["kind"] == NodeKind.FINDING and bool(_parents(graph, node))


def _shown(graph: Graph, node: str, row: int, middle: str, told: bool) -> Shown:
    data = graph.nodes[node]
    column = _COLUMN[data["kind"]]
    x, width, _ = HEADS[column]
    shape = shape_of(data)
    room = int((width - (_ICON if shape else 0)) / (_BOLD_LETTERS if node == middle else _LETTERS))
    near = told or graph.has_edge(node, middle) or graph.has_edge(middle, node)
    looks = ["nd"] + ["on"] * near + ["sel"] * (node == middle)
    looks += ["mono"] * (data["kind"] == NodeKind.KNOB) + ["old"] * (data.get("state") == "superseded")
    text = _cut(_text(node, data, room), room)
    return Shown(node, x, TOP + ROW * row, text, _told(node, data), shape, " ".join(looks))


def _told(node: str, data: dict[str, str]) -> str:
    title = data["title"]
    return title if data["kind"] == NodeKind.HARDWARE else f"{node}: {title}"


def _text(node: str, data: dict[str, str], room: int) -> str:
    kind, title = data["kind"], data["title"]
    if kind == NodeKind.EXPERIMENT:
        return f"{node} {effect_of(dict(data))}".strip()
    if kind == NodeKind.FINDING:
        return f"{node} {_CHANGING.sub('', without_beside(title))}"
    if kind == NodeKind.HYPOTHESIS:
        return f"{node} {title}"
    if kind == NodeKind.KNOB and len(title) > room:
        return "…" + title.rpartition(".")[2]
    return f"{node} {title}" if kind == NodeKind.CAMPAIGN else title


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1].rstrip() + "…"


def _line(source: Shown, target: Shown, relation: str, middle: str, of_story: bool) -> Line:
    left, right = sorted((source, target), key=lambda each: (each.x, each.y))
    on = middle in (source.id, target.id)
    looks = ["ed"] + ["on"] * (on or of_story) + ["neg"] * (relation in _AGAINST)
    y_left, y_right = left.y - 4, right.y - 4
    if left.x == right.x:
        x = left.x - 6
        bend = x - min(22, 8 + abs(y_right - y_left) // 12)
        path = f"M{x} {y_left}C{bend} {y_left} {bend} {y_right} {x} {y_right}"
        place = (left.x + 20, (y_left + y_right) / 2)
        looks += ["sup"] * (relation == Relation.SUPERSEDES.value)
    else:
        begin = round(left.x + _ICON * (left.shape is not None) + len(left.text) * _LETTERS + 5)
        begin, end = min(begin, right.x - 24), right.x - 7
        half = (begin + end) // 2
        path = f"M{begin} {y_left}C{half} {y_left} {half} {y_right} {end} {y_right}"
        place = (half, (y_left + y_right) / 2 - _ABOVE)
    told = WORDS[relation][0] if on and relation in _TOLD else None
    return Line(f"{source.id}>{target.id}", path, " ".join(looks), told, *place)

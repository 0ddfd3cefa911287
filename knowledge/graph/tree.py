"""A neighbourhood as a tree: what the node in the middle touches, and on from there. Pure.

Every node has its branches once, where it is nearest to the middle; a relation between findings, hypotheses
and experiments that would close a circle is a leaf, so that none is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from knowledge.graph.typed_graph import Graph, NodeKind, Relation

WORDS: dict[str, tuple[str, str]] = {
    Relation.TESTS.value: ("tests", "tested by"),
    Relation.SUPPORTS.value: ("supports", "supported by"),
    Relation.REFUTES.value: ("refutes", "refuted by"),
    Relation.CONTRADICTS.value: ("contradicts", "contradicted by"),
    Relation.REPRODUCES.value: ("reproduces", "reproduced by"),
    Relation.REPLICATES.value: ("replicates", "replicated by"),
    Relation.INFORMS.value: ("informs", "informed by"),
    Relation.SUPERSEDES.value: ("supersedes", "superseded by"),
    Relation.DERIVED_FROM.value: ("derived from", "led to"),
    Relation.BUILDS_ON.value: ("builds on", "built on by"),
    Relation.RESTS_ON.value: ("began with", "began"),
    Relation.FOLLOWS_UP.value: ("follows up", "followed up by"),
    Relation.CHANGES.value: ("changes", "changed by"),
    Relation.PART_OF.value: ("part of", "has"),
    Relation.OPTIMIZES.value: ("optimizes", "optimized by"),
    Relation.RUNS_ON.value: ("runs on", "runs"),
    Relation.SCOPED_TO.value: ("holds for", "spoken of by"),
}
"""A relation in words, read from its source and from its target."""


def relation_words(relation: str) -> str:
    """A relation in words, read from its source."""
    return WORDS[relation][0]


_SAYING = (
    Relation.SUPERSEDES.value,
    Relation.CONTRADICTS.value,
    Relation.REFUTES.value,
    Relation.SUPPORTS.value,
    Relation.REPLICATES.value,
    Relation.REPRODUCES.value,
    Relation.DERIVED_FROM.value,
    Relation.BUILDS_ON.value,
    Relation.RESTS_ON.value,
    Relation.FOLLOWS_UP.value,
    Relation.INFORMS.value,
)
"""Relations that say something of their target, what says most first."""


_FIRST: dict[str, int] = {
    kind.value: place
    for place, kind in enumerate(
        (
            NodeKind.EXPERIMENT,
            NodeKind.FINDING,
            NodeKind.HYPOTHESIS,
            NodeKind.KNOB,
            NodeKind.CAMPAIGN,
            NodeKind.MODEL,
            NodeKind.HARDWARE,
        )
    )
}
"""Kinds in the order of branches: what was measured before what it was measured of."""


class Branch(BaseModel):
    """A node in the tree; `relation` in words, from its parent on, and empty for the root."""

    model_config = ConfigDict(frozen=True)

    node: str
    relation: str
    again: bool
    branches: tuple[Branch, ...] = ()


def strongest(relations: list[str]) -> str:
    """Return of the relations between two nodes the one that says most."""
    return min(relations, key=lambda each: _SAYING.index(each) if each in _SAYING else len(_SAYING))


def tree(graph: Graph, root: str) -> Branch:
    """Return the tree of a connected neighbourhood; branches by kind, then as nodes were made."""
    order = {node: (_FIRST[kind], place) for place, (node, kind) in enumerate(graph.nodes(data="kind"))}
    parents: dict[str, str | None] = {root: None}
    waiting = deque([root])
    branches: dict[str, list[tuple[str, str, bool]]] = {}
    while waiting:
        node = waiting.popleft()
        for other, words, says in sorted(_around(graph, node), key=lambda each: order[each[0]]):
            if other not in parents:
                parents[other] = node
                waiting.append(other)
                branches.setdefault(node, []).append((other, words, False))
            elif says and parents[node] != other and parents[other] != node and order[other] < order[node]:
                branches.setdefault(node, []).append((other, words, True))
    return _branch(root, "", False, branches)


def _around(graph: Graph, node: str) -> Iterator[tuple[str, str, bool]]:
    for other, edges in graph.adj[node].items():
        relation = strongest(list(edges))
        yield other, WORDS[relation][0], relation in _SAYING
    for other, edges in graph.pred[node].items():
        if other not in graph.adj[node]:
            relation = strongest(list(edges))
            yield other, WORDS[relation][1], relation in _SAYING


def _branch(
    node: str, relation: str, again: bool, branches: dict[str, list[tuple[str, str, bool]]]
) -> Branch:
    below = () if again else tuple(_branch(*each, branches) for each in branches.get(node, ()))
    return Branch(node=node, relation=relation, again=again, branches=below)

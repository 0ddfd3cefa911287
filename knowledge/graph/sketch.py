"""The graph as plain rows: what is made from the database before it becomes one of networkx's.

Making a node or an edge in networkx takes ten times as long as here, which is seconds for a graph that only
wants to be drawn.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from knowledge.graph.typed_graph import Graph, new_graph

Edge = tuple[str, str, str]
"""Source, target and the word of the relation."""

NOTHING: Mapping[str, Any] = MappingProxyType({})
"""Attributes of most edges."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """Nodes and edges with their attributes, in the order in which they were added first.

    Adding one again adds its attributes to those it has, as networkx has it. `known` are nodes of a graph
    that this is a part of, to which edges may lead.
    """

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    edges: dict[Edge, Mapping[str, Any]] = field(default_factory=dict)
    known: Container[str] = frozenset()

    def has(self, name: str) -> bool:
        """Whether an edge may lead there."""
        return name in self.nodes or name in self.known

    def add_node(self, name: str, kind: str, title: str, **attributes: Any) -> None:
        """Add a node; `kind` is the word of one of `NodeKind`."""
        said = {"kind": kind, "title": title, **attributes}
        found = self.nodes.setdefault(name, said)
        if found is not said:
            found.update(said)

    def add_edge(
        self, source: str, target: str, relation: str, attributes: Mapping[str, Any] = NOTHING
    ) -> None:
        """Add an edge; `relation` is the word of one of `Relation`. Both ends must be there."""
        edge = (source, target, relation)
        if attributes is NOTHING:
            self.edges.setdefault(edge, NOTHING)
        else:
            self.edges[edge] = {**self.edges.get(edge, NOTHING), **attributes}

    def graph(self) -> Graph:
        """The same as a graph of networkx, whose edges have their relation as an attribute too."""
        graph = new_graph()
        graph.add_nodes_from(self.nodes.items())
        graph.add_edges_from(
            (source, target, relation, {"relation": relation, **attributes})
            for (source, target, relation), attributes in self.edges.items()
        )
        return graph

"""The graph that ties models, hardware, knobs, hypotheses, experiments and findings together.

A networkx `MultiDiGraph`, made from the database by `knowledge.graph.building`. Node names are labels
(`H-021`) or `kind:name` (`knob:serving.threads`). Every node has `kind` and `title`, every edge `relation`;
all attributes are texts and numbers, so that the graph can be written as GraphML as well as JSON.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from configs.errors import UsageError
from experiments.space.space import NEAR

if TYPE_CHECKING:
    import networkx as nx

    Graph: TypeAlias = nx.MultiDiGraph
    """A graph of this room; networkx has no types of its own."""
else:
    Graph = Any  # networkx is loaded by who makes a graph: what needs its words alone is read sooner without

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not have."""

MOST_NEAR = 3
"""Names that are suggested for one that there is not."""


class NodeKind(StrEnum):
    """What a node stands for."""

    MODEL = "model"
    HARDWARE = "hardware"
    CAMPAIGN = "campaign"
    KNOB = "knob"
    HYPOTHESIS = "hypothesis"
    EXPERIMENT = "experiment"
    FINDING = "finding"


class Relation(StrEnum):
    """What an edge says, read from its source to its target."""

    TESTS = "tests"
    """An experiment tests a hypothesis."""
    SUPPORTS = "supports"
    """An experiment's verdict supports a hypothesis or a finding."""
    REFUTES = "refutes"
    """An experiment's verdict refutes a hypothesis."""
    CONTRADICTS = "contradicts"
    """An experiment's verdict contradicts a finding, or what another target said of the same claim."""
    REPRODUCES = "reproduces"
    """An experiment's verdict says of a finding again what its own campaign said before, or an experiment
    runs another again."""
    REPLICATES = "replicates"
    """An experiment's verdict is the first of another campaign to say what was said of a finding before, or
    an experiment says the same on another target, as its finding then does."""
    INFORMS = "informs"
    """An experiment's verdict is counted in a finding without deciding it, or says the same on another target
    by another amount."""
    SUPERSEDES = "supersedes"
    """A finding takes the place of an older one."""
    DERIVED_FROM = "derived_from"
    """A hypothesis follows from another."""
    BUILDS_ON = "builds_on"
    """A hypothesis was proposed because of a finding, or takes its dispute with another apart."""
    RESTS_ON = "rests_on"
    """A campaign began with what a finding of other campaigns bears on; `weight` is how far all of that is
    believed in it now."""
    FOLLOWS_UP = "follows_up"
    """A hypothesis separates what confounded an experiment, or confirms it on another target."""
    CHANGES = "changes"
    """A hypothesis or a finding is about a change of a knob."""
    PART_OF = "part_of"
    """A hypothesis, or an experiment without one, belongs to a campaign."""
    OPTIMIZES = "optimizes"
    """A campaign makes a model faster."""
    RUNS_ON = "runs_on"
    """A campaign runs on hardware."""
    SCOPED_TO = "scoped_to"
    """A finding speaks of a model or hardware alone."""


def new_graph(like: Graph | None = None) -> Graph:
    """Return a graph with the nodes and edges of another, or an empty one."""
    from networkx import MultiDiGraph

    return MultiDiGraph(like)


def neighbourhood(graph: Graph, node: str, depth: int = 1) -> Graph:
    """Return what lies within `depth` edges of `node`, in either direction, with all edges between it; the
    nearest first.

    Raises `UsageError` for a node that is not in the graph.
    """
    import networkx as nx

    if node not in graph:
        raise UsageError(f"{node} is not in the graph.", _nearest(graph, node))
    near = nx.single_source_shortest_path_length(graph.to_undirected(as_view=True), node, cutoff=depth)
    found = new_graph()
    nearest_first = sorted((each for each in graph if each in near), key=lambda each: near[each])
    found.add_nodes_from((each, graph.nodes[each]) for each in nearest_first)
    found.add_edges_from(edge for edge in graph.edges(nearest_first, keys=True, data=True) if edge[1] in near)
    return found


def _nearest(graph: Graph, node: str) -> str:
    """The nodes with names like this one, or what a node is called."""
    near = get_close_matches(node, graph, MOST_NEAR, NEAR) if ":" in node else []
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return "A node is a label such as H-001, or knob:NAME, model:NAME, hardware:NAME."


def counts(graph: Graph) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many nodes of each kind and edges of each relation there are."""
    kinds = _counted(data["kind"] for _, data in graph.nodes(data=True))
    relations = _counted(data["relation"] for _, _, data in graph.edges(data=True))
    return kinds, relations


def node_link(graph: Graph) -> dict[str, Any]:
    """Return the graph as networkx's node-link JSON: `nodes` with `id`, `edges` with `source`, `target`,
    `key`."""
    import networkx as nx

    data: dict[str, Any] = nx.node_link_data(graph, edges="edges")
    return data


def graphml(graph: Graph) -> str:
    """Return the graph as GraphML; characters that XML has not, as a log may have, stand as U+FFFD."""
    import networkx as nx

    buffer = io.BytesIO()
    nx.write_graphml(_with_xml_texts(graph), buffer, encoding="utf-8")
    return buffer.getvalue().decode()


def _with_xml_texts(graph: Graph) -> Graph:
    """The graph, or a copy of it where a text has a character that XML has not."""
    unfit = [
        (node, name, value)
        for node, data in graph.nodes(data=True)
        for name, value in data.items()
        if isinstance(value, str) and _NOT_XML.search(value)
    ]
    if not unfit:
        return graph
    found: Graph = graph.copy()
    for node, name, value in unfit:
        found.nodes[node][name] = _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value)
    return found


def _counted(names: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))

"""The whole graph for the canvas and for other programs: its data in one answer, GraphML, node-link JSON."""

from __future__ import annotations

import gzip
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from pydantic import Field

from dashboard.live_graph import graph_of
from dashboard.page import ALWAYS_S, Filters
from dashboard.pages.knowledge import KnowledgeFilters, filtered
from dashboard.routes import Server
from dashboard.web.kept import keep
from knowledge.graph.building import sketch_graph
from knowledge.graph.layout import BLOCK_ROWS, Cell, layout
from knowledge.graph.sketch import NOTHING, Sketch
from knowledge.graph.typed_graph import Graph, NodeKind, graphml, neighbourhood, node_link
from knowledge.queries.around import node_name
from knowledge.queries.graph_changes import last_change

TITLE_LENGTH = 90
"""Characters of a title on the canvas; pages have all of it."""

MOST_KEPT = 8
"""Answers that are kept, those that were asked for last."""

GZIP_LEVEL = 5
"""Of zlib: what is kept was compressed once."""


class Exported(Filters):
    """What is exported: all of it, or what lies within so many edges of a node."""

    node: str | None = Field(default=None, max_length=200, description="A label, or knob:NAME, model:NAME …")
    depth: int = Field(default=1, ge=1, le=20, description="How many edges around it.")

    def of(self, graph: Graph) -> Graph:
        """The part; raises `UsageError` for a node that is not there."""
        return graph if self.node is None else neighbourhood(graph, node_name(self.node), self.depth)


class GraphAnswers:
    """Compressed answers by what was asked, each kept until an event that changes the graph.

    Most of what a campaign writes does not, so that this lasts longer than what is kept of pages. Of several
    who ask at once one reads and the others wait.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, asked: str, event_id: int, made: Callable[[], bytes]) -> bytes:
        """What is kept of `asked` since this event, the last one that changed the graph; or it is made."""
        with self._lock:
            known_id, answer = self._kept.get(asked, (-1, b""))
            if known_id < event_id:
                answer = gzip.compress(made(), GZIP_LEVEL)
                self._kept[asked] = (event_id, answer)
            self._kept.move_to_end(asked)
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return answer


def add_graph_data(app: FastAPI, server: Server) -> None:
    """Add the graph's data; before the page of a finding, whose path would take it for a label."""

    answers = GraphAnswers()

    @app.get("/knowledge/graph.json", tags=["pages"], response_class=Response)
    def data(http: Request, filters: Annotated[KnowledgeFilters, Query()]) -> Response:
        """Nodes with their positions, and edges, of what the filters leave of the whole graph."""
        keep(http, ALWAYS_S)
        with server.database.read() as session:
            answer = answers.get(
                filters.data,
                last_change(session),
                lambda: canvas_json(sketch_graph(session, effects=False), filters),
            )
        headers = {"vary": "Accept-Encoding"}
        if "gzip" in http.headers.get("accept-encoding", ""):
            return Response(
                answer, headers=headers | {"content-encoding": "gzip"}, media_type="application/json"
            )
        return Response(gzip.decompress(answer), headers=headers, media_type="application/json")

    @app.get("/knowledge/export.json", tags=["pages"], response_class=Response)
    def as_json(part: Annotated[Exported, Query()]) -> Response:
        """The whole graph, or what is near a node, as node-link JSON."""
        with server.database.read() as session, graph_of(session) as graph:
            text = json.dumps(node_link(part.of(graph)), ensure_ascii=False)
        return _file(text, "application/json", "json")

    @app.get("/knowledge/export.graphml", tags=["pages"], response_class=Response)
    def as_graphml(part: Annotated[Exported, Query()]) -> Response:
        """The whole graph, or what is near a node, as GraphML."""
        with server.database.read() as session, graph_of(session) as graph:
            text = graphml(part.of(graph))
        return _file(text, "application/graphml+xml", "graphml")


def canvas_json(graph: Sketch, asked: KnowledgeFilters) -> bytes:
    """What `canvas` gives, as JSON."""
    return json.dumps(canvas(graph, asked), ensure_ascii=False, separators=(",", ":")).encode()


def canvas(graph: Sketch, asked: KnowledgeFilters) -> dict[str, Any]:
    """The graph as short rows: `nodes` are id, kind, title, state, column, row; `edges` are the places of two
    nodes and a relation; `lanes` are a lever, and the column and row of the first hypothesis that is left of
    a block of its rows. Positions are those of the whole graph, whatever the filters leave of it."""
    cells = layout(graph)
    found = graph if asked == KnowledgeFilters() else _sketched(filtered(graph.graph(), asked))
    places = {node: place for place, node in enumerate(found.nodes)}
    nodes = [
        (
            node,
            data["kind"],
            data["title"][:TITLE_LENGTH],
            data.get("outcome") or data.get("state", ""),
            cells[node].column,
            cells[node].row,
        )
        for node, data in found.nodes.items()
    ]
    edges = [(places[source], places[target], relation) for source, target, relation in found.edges]
    return {"nodes": nodes, "edges": edges, "lanes": _lanes(found, cells)}


def _lanes(graph: Sketch, cells: Mapping[str, Cell]) -> list[tuple[str, int, int]]:
    """The first hypothesis of each block of rows of a lever: the leftmost, of those the uppermost."""
    found: dict[int, tuple[str, int, int]] = {}
    for node, data in graph.nodes.items():
        if data["kind"] == NodeKind.HYPOTHESIS:
            cell = cells[node]
            lane = (data.get("lever", ""), cell.column, cell.row)
            block = cell.row // BLOCK_ROWS
            found[block] = min(lane, found.get(block, lane))
    return list(found.values())


def _sketched(graph: Graph) -> Sketch:
    return Sketch(dict(graph.nodes(data=True)), dict.fromkeys(graph.edges(keys=True), NOTHING))


def _file(text: str, media_type: str, ending: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="knowledge.{ending}"'}
    return Response(text, media_type=f"{media_type}; charset=utf-8", headers=headers)

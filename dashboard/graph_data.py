"""The whole graph for the canvas and for other programs: its data in one answer, GraphML, node-link JSON."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import FastAPI, Query, Response

from dashboard.pages.knowledge import KnowledgeFilters, filtered
from dashboard.routes import Server
from db import events
from knowledge.graph import Graph, graphml, node_link
from knowledge.graph_building import build_graph
from knowledge.layout import layout

TITLE_LENGTH = 90
"""Characters of a title on the canvas; pages have all of it."""


MOST_KEPT = 8
"""Answers that are kept until the next event, so that a hundred viewers of a push make one."""


def add_graph_data(app: FastAPI, server: Server) -> None:
    """Add the graph's data; before the page of a finding, whose path would take it for a label."""

    kept: dict[str, tuple[int, str]] = {}  # by what was asked: the last event then, and the answer

    @app.get("/knowledge/graph.json", tags=["pages"], response_class=Response)
    def data(filters: Annotated[KnowledgeFilters, Query()]) -> Response:
        """Nodes with their positions, and edges, of what the filters leave of the whole graph."""
        asked = filters.data
        with server.database.read() as session:
            last_id = events.last_id(session)
            known_id, text = kept.get(asked, (-1, ""))
            if known_id != last_id:
                graph = build_graph(session)
                text = json.dumps(canvas(graph, filters), ensure_ascii=False, separators=(",", ":"))
                if len(kept) >= MOST_KEPT:
                    kept.clear()
                kept[asked] = (last_id, text)
        return Response(text, media_type="application/json")

    @app.get("/knowledge/export.json", tags=["pages"], response_class=Response)
    def whole() -> Response:
        """The whole graph as node-link JSON."""
        with server.database.read() as session:
            graph = build_graph(session)
        return _file(json.dumps(node_link(graph), ensure_ascii=False), "application/json", "json")

    @app.get("/knowledge/export.graphml", tags=["pages"], response_class=Response)
    def as_graphml() -> Response:
        """The whole graph as GraphML."""
        with server.database.read() as session:
            graph = build_graph(session)
        return _file(graphml(graph), "application/graphml+xml", "graphml")


def canvas(graph: Graph, asked: KnowledgeFilters) -> dict[str, Any]:
    """The graph as short rows: `nodes` are id, kind, title, state, column, row; `edges` are the places of two
    nodes and a relation. Positions are those of the whole graph, whatever the filters leave of it."""
    cells = layout(graph)
    found = graph if asked == KnowledgeFilters() else filtered(graph, asked)
    places = {node: place for place, node in enumerate(found)}
    nodes = [
        (
            node,
            data["kind"],
            data["title"][:TITLE_LENGTH],
            data.get("outcome") or data.get("state", ""),
            cells[node].column,
            cells[node].row,
        )
        for node, data in found.nodes(data=True)
    ]
    edges = [(places[source], places[target], key) for source, target, key in found.edges(keys=True)]
    return {"nodes": nodes, "edges": edges}


def _file(text: str, media_type: str, ending: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="knowledge.{ending}"'}
    return Response(text, media_type=f"{media_type}; charset=utf-8", headers=headers)

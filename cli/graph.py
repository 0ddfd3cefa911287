"""`autoinfer graph`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import CampaignFilter, Json

if TYPE_CHECKING:
    from knowledge.graph import Graph


class GraphFormat(StrEnum):
    """How the graph is written."""

    JSON = "json"
    GRAPHML = "graphml"


def graph(
    ctx: typer.Context,
    campaign: CampaignFilter = None,
    around: Annotated[
        str | None,
        typer.Option(
            "--around", metavar="NODE", help="Only what is near this label, or knob:NAME, model:NAME …"
        ),
    ] = None,
    depth: Annotated[int, typer.Option("--depth", min=1, max=20, help="How many edges around it.")] = 1,
    format_: Annotated[
        GraphFormat | None, typer.Option("--format", help="Write the whole graph in this format.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write to this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """How models, knobs, hypotheses, experiments and findings hang together.

    Without a format it is counted, or listed around one node.
    """
    from cli.opening import reading
    from cli.output import print_json, say
    from knowledge.graph import graphml, neighbourhood, node_link
    from knowledge.graph_building import build_graph
    from knowledge.queries.lookup import campaign_filter

    with reading(ctx) as session:
        found = build_graph(session, campaign_filter(session, campaign))
    if around is not None:
        found = neighbourhood(found, _node_name(around), depth)
    wanted = format_ or (GraphFormat.JSON if as_json or output is not None else None)
    if wanted is None:
        _print_text(found, listed=around is not None)
        return
    if output is None:
        print_json(node_link(found)) if wanted is GraphFormat.JSON else print(graphml(found))
        return
    _write(output, found, wanted)
    size = {"nodes": found.number_of_nodes(), "edges": found.number_of_edges()}
    if as_json:
        print_json({"output": str(output), "format": wanted.value, **size})
    else:
        say(f"Wrote {size['nodes']} nodes and {size['edges']} edges to {output}.")


def _node_name(text: str) -> str:
    """Return the node a user means: labels in any case and padding, other names as they are."""
    from db.labels import format_label, parse_label

    return text if ":" in text else format_label(*parse_label(text))


def _write(output: Path, found: Graph, wanted: GraphFormat) -> None:
    import json

    from knowledge.graph import graphml, node_link

    text = (
        graphml(found) if wanted is GraphFormat.GRAPHML else json.dumps(node_link(found), ensure_ascii=False)
    )
    output.write_text(text + "\n", encoding="utf-8")


def _print_text(found: Graph, *, listed: bool) -> None:
    from cli.output import console, table
    from knowledge.graph import counts

    out = console()
    kinds, relations = counts(found)
    if not listed:
        rows = [("node", kind, str(count)) for kind, count in kinds.items()]
        rows += [("edge", relation, str(count)) for relation, count in relations.items()]
        out.print(table(("what", "kind", ">count"), rows))
        return
    out.print(
        table(
            ("node", "kind", "title"),
            [(name, data["kind"], data["title"]) for name, data in found.nodes(data=True)],
            wide=("title",),
        )
    )
    out.print()
    edges = [(source, data["relation"], target) for source, target, data in found.edges(data=True)]
    out.print(table(("from", "relation", "to"), edges))

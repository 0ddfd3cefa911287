"""`autoinfer graph`: what is in it, its export, and the questions that one can ask of it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.briefly import briefly
from cli.console.options import CampaignFilter, Json
from cli.graph_questions import if_fell, known, led_to, untested, why_not

if TYPE_CHECKING:
    from knowledge.graph.typed_graph import Graph

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.callback()
def graph(ctx: typer.Context) -> None:
    """Ask how models, knobs, hypotheses, experiments and findings hang together."""
    ctx.with_resource(briefly())


for name, command in (
    ("known", known),
    ("why-not", why_not),
    ("led-to", led_to),
    ("if-fell", if_fell),
    ("untested", untested),
):
    app.command(name)(command)


class GraphFormat(StrEnum):
    """How the graph is written."""

    JSON = "json"
    GRAPHML = "graphml"


Around = Annotated[
    str | None,
    typer.Option("--around", metavar="NODE", help="Only what is near this label, or knob:NAME, model:NAME …"),
]
Depth = Annotated[int, typer.Option("--depth", min=1, max=20, help="How many edges around it.")]


@app.command("show")
def show(
    ctx: typer.Context,
    node: Annotated[
        str | None,
        typer.Argument(metavar="NODE", help="The same as --around: a label, or knob:NAME, model:NAME …"),
    ] = None,
    campaign: CampaignFilter = None,
    around: Around = None,
    depth: Depth = 1,
    as_json: Json = False,
) -> None:
    """How many nodes and edges there are by kind; around one node, which."""
    from cli.console.output import print_json
    from configs.errors import UsageError
    from knowledge.graph.typed_graph import counts

    if node is not None and around is not None:
        raise UsageError(
            f"{node} and --around {around} name a node each.",
            f"Name one: autoinfer graph show {node}, or: autoinfer graph show --around {around}",
        )
    around = node or around
    found = _read(ctx, campaign, around, depth)
    if as_json:
        kinds, relations = counts(found)
        print_json({"nodes": kinds, "edges": relations})
        return
    _print_text(found, listed=around is not None)


@app.command("export")
def export(
    ctx: typer.Context,
    campaign: CampaignFilter = None,
    around: Around = None,
    depth: Depth = 1,
    format_: Annotated[
        GraphFormat, typer.Option("--format", help="Node-link JSON as networkx reads it, or GraphML.")
    ] = GraphFormat.JSON,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write to this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the graph, or what is near a node, as JSON or GraphML."""
    from cli.console.output import print_json, say
    from knowledge.graph.typed_graph import graphml, node_link

    found = _read(ctx, campaign, around, depth)
    if output is None:
        print_json(node_link(found)) if format_ is GraphFormat.JSON else print(graphml(found))
        return
    _write(output, found, format_)
    size = {"nodes": found.number_of_nodes(), "edges": found.number_of_edges()}
    if as_json:
        print_json({"output": str(output), "format": format_.value, **size})
    else:
        say(f"Wrote {size['nodes']} nodes and {size['edges']} edges to {output}.")


def _read(ctx: typer.Context, campaign: str | None, around: str | None, depth: int) -> Graph:
    from cli.console.opening import reading
    from knowledge.graph.building import build_graph
    from knowledge.graph.typed_graph import neighbourhood
    from knowledge.queries.around import node_name
    from knowledge.queries.lookup import campaign_filter

    with reading(ctx) as session:
        found = build_graph(session, campaign_filter(session, campaign))
    return found if around is None else neighbourhood(found, node_name(around), depth)


def _write(output: Path, found: Graph, wanted: GraphFormat) -> None:
    import json

    from cli.console.output_file import write_output
    from knowledge.graph.typed_graph import graphml, node_link

    text = (
        graphml(found) if wanted is GraphFormat.GRAPHML else json.dumps(node_link(found), ensure_ascii=False)
    )
    write_output(output, text + "\n")


def _print_text(found: Graph, *, listed: bool) -> None:
    from cli.console.output import console, table
    from knowledge.graph.typed_graph import counts

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

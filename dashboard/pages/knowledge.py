"""Knowledge: what is near a node, as a picture and as a tree; the whole graph on request; the findings."""

from __future__ import annotations

from shlex import quote
from typing import Any, Literal
from urllib.parse import urlencode

from pydantic import Field
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from dashboard.charts.neighbourhood import Picture, effect_of, picture, shape_of
from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request, Table
from db.event_kinds import EventKind
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Experiment, Finding, Hypothesis
from db.models.base import NAME_LENGTH
from knowledge.graph.tree import Branch, tree
from knowledge.graph.typed_graph import Graph, NodeKind, Relation, new_graph
from knowledge.queries.around import around, newest_finding, node_name
from knowledge.queries.found.doubts import NO_DOUBT, doubts_of
from knowledge.queries.found.findings import FindingView, list_findings
from knowledge.queries.found.scopes import besides
from knowledge.queries.lanes import Lanes, list_lanes
from knowledge.queries.things import ThingRow, Things, list_things
from knowledge.queries.view import Page as Rows
from knowledge.queries.view import View

MOST_FINDINGS = 8
"""Findings on the page, the last changed first."""

MOST_THINGS = 100
LARGEST_OFFSET = 10_000_000


class KnowledgeFilters(Filters):
    """The node in the middle and how far around it; or the whole graph; what of it."""

    node: str | None = Field(default=None, max_length=200, description="A label, or knob:NAME, model:NAME …")
    depth: int = Field(default=2, ge=1, le=3, description="How many edges around it.")
    whole: bool = Field(default=False, description="All there is, instead of a neighbourhood.")
    kind: NodeKind | None = Field(default=None, description="Only nodes of this kind.")
    lever: str | None = Field(default=None, max_length=NAME_LENGTH, description="Only nodes of this lever.")
    relation: Relation | None = Field(default=None, description="Only edges of this relation.")
    q: str | None = Field(default=None, max_length=100, description="Words of a title, or a label.")
    view: Literal["tree", "table"] = Field(default="tree", description="The twin beside the picture.")
    offset: int = Field(default=0, ge=0, le=LARGEST_OFFSET)

    def href(self, **changes: object) -> str:
        """The address of this view with something changed."""
        given: dict[str, Any] = self.model_copy(update=changes).model_dump(mode="json", exclude_defaults=True)
        given = {name: "1" if value is True else value for name, value in given.items() if value is not None}
        return f"/knowledge?{urlencode(given)}" if given else "/knowledge"

    @property
    def in_lanes(self) -> bool:
        """Whether the whole graph is asked for lever by lever: a search, a kind or a relation leaves single
        things of it."""
        return self.whole and (self.q, self.kind, self.relation, self.offset) == (None, None, None, 0)

    @property
    def data(self) -> str:
        """The address of the whole graph's data, of what the filters leave."""
        kept = self.model_dump(mode="json", include={"kind", "lever", "relation", "q"}, exclude_none=True)
        return f"/knowledge/graph.json?{urlencode(kept)}" if kept else "/knowledge/graph.json"


class NodeView(View):
    """A node of the neighbourhood; of a finding what its control has that tells it from those which read
    alike, and what speaks against it, as a clause."""

    id: str
    kind: NodeKind
    title: str
    state: str | None
    lever: str | None
    shape: str | None
    effect: str
    beside: str | None = None
    doubt: str | None = None


class EdgeView(View):
    """An edge, read from its source to its target."""

    source: str
    relation: Relation
    target: str


class Around(View):
    """What is near `node`; `hidden` counts what the filters hide, `left_out` says whether more lies near."""

    node: str
    nodes: tuple[NodeView, ...]
    edges: tuple[EdgeView, ...]
    hidden: int
    left_out: bool
    tree: Branch = Field(exclude=True)
    picture: Picture = Field(exclude=True)

    @property
    def by_id(self) -> dict[str, NodeView]:
        """The nodes by their names."""
        return {node.id: node for node in self.nodes}


class KnowledgeView(View):
    """A neighbourhood, or a list of all things, and of the whole graph its lanes, unless filters leave
    single things of it; `counts` are rows by kind."""

    around: Around | None
    lanes: Lanes | None
    things: Rows[ThingRow] | None
    findings: Rows[FindingView]
    counts: dict[str, int]
    levers: tuple[str, ...]


def read(session: Session, request: Request[KnowledgeFilters], ground: Ground) -> KnowledgeView:
    """Read the neighbourhood, or the list of all things."""
    asked = request.filters
    things = None
    near = None
    if asked.whole or (asked.q is not None and asked.node is None):
        things = list_things(
            session, Things(asked.kind, asked.lever, asked.relation, asked.q), MOST_THINGS, asked.offset
        )
    else:
        node = newest_finding(session) if asked.node is None else node_name(asked.node)
        near = None if node is None else _around(session, node, asked)
    return KnowledgeView(
        around=near,
        lanes=list_lanes(session, asked.lever) if asked.in_lanes else None,
        things=things,
        findings=list_findings(session, limit=MOST_FINDINGS),
        counts=_counts(session),
        levers=tuple(session.scalars(select(Hypothesis.lever).distinct().order_by(Hypothesis.lever))),
    )


def filtered(graph: Graph, asked: KnowledgeFilters, middle: str | None = None) -> Graph:
    """The graph with what the filters leave: nodes that meet all of them, and the one in the middle."""
    edges = [
        (source, target, key)
        for source, target, key in graph.edges(keys=True)
        if asked.relation is None or key == asked.relation.value
    ]
    said = {end for source, target, _ in edges for end in (source, target)}
    kept = {
        node
        for node, data in graph.nodes(data=True)
        if node == middle or (_fits(node, data, asked) and (asked.relation is None or node in said))
    }
    if asked.relation is None and len(kept) == len(graph):
        return graph  # a view of it is walked several times as slowly
    found: Graph = graph.subgraph(kept)
    if asked.relation is not None:
        found = new_graph(found)
        wanted = set(edges)
        found.remove_edges_from([each for each in list(found.edges(keys=True)) if each not in wanted])
    return found


def _fits(node: str, data: dict[str, str], asked: KnowledgeFilters) -> bool:
    if asked.kind is not None and data["kind"] != asked.kind.value:
        return False
    if asked.lever is not None and asked.lever not in data.get("lever", "").split("+"):
        return False
    return asked.q is None or asked.q.casefold() in f"{node} {data['title']}".casefold()


def _around(session: Session, node: str, asked: KnowledgeFilters) -> Around:
    found = around(session, node, asked.depth)
    graph = filtered(found.graph, asked, node)
    return Around(
        node=node,
        nodes=_nodes(session, graph),
        edges=tuple(
            EdgeView(source=source, relation=Relation(key), target=target)
            for source, target, key in graph.edges(keys=True)
        ),
        hidden=len(found.graph) - len(graph),
        left_out=found.left_out,
        tree=tree(graph, node),
        picture=picture(graph, node),
    )


def _nodes(session: Session, graph: Graph) -> tuple[NodeView, ...]:
    kinds = graph.nodes(data="kind")
    numbers = [parse_label_of(Noun.FINDING, name) for name, kind in kinds if kind == NodeKind.FINDING]
    findings = session.scalars(select(Finding).where(Finding.id.in_(numbers))).all()
    beside, doubts = besides(session, findings), doubts_of(session, findings)
    told = {
        format_label(Noun.FINDING, each.id): {
            "beside": beside.get(each.id),
            "doubt": doubts.get(each.id, NO_DOUBT).words,
        }
        for each in findings
    }
    return tuple(
        _node(name, data).model_copy(update=told.get(name, {})) for name, data in graph.nodes(data=True)
    )


def _node(name: str, data: dict[str, Any]) -> NodeView:
    return NodeView(
        id=name,
        kind=NodeKind(data["kind"]),
        title=data["title"],
        state=data.get("outcome") or data.get("state"),
        lever=data.get("lever"),
        shape=shape_of(data),
        effect=effect_of(data),
    )


def _counts(session: Session) -> dict[str, int]:
    tables = (("finding", Finding), ("hypothesis", Hypothesis), ("experiment", Experiment))
    columns = [
        select(func.count()).select_from(table).scalar_subquery().label(name)
        for name, table in (*tables, ("campaign", Campaign))
    ]
    return dict(session.execute(select(*columns)).one()._mapping)


def command(request: Request[KnowledgeFilters]) -> str:
    """The same on the command line."""
    asked = request.filters
    if asked.node is None:
        return "autoinfer graph show"
    depth = "" if asked.depth == 1 else f" --depth {asked.depth}"
    return f"autoinfer graph show {quote(asked.node)}{depth}"


def table(view: KnowledgeView) -> Table:
    """Edges of the neighbourhood, or the things of the list."""
    if view.around is not None:
        rows = [(each.source, each.relation.value, each.target) for each in view.around.edges]
        return Table(("source", "relation", "target"), rows)
    things = view.things.items if view.things else ()
    return Table(
        ("id", "kind", "state", "lever", "title"),
        [(each.id, each.kind.value, each.state, each.lever, each.title) for each in things],
    )


KINDS = (
    EventKind.CAMPAIGN_STARTED,
    EventKind.HYPOTHESIS_PROPOSED,
    EventKind.HYPOTHESIS_WITHDRAWN,
    EventKind.HYPOTHESIS_CONFOUNDED,
    EventKind.HYPOTHESIS_RESTATED,
    EventKind.QUEUE_WRITTEN_OUT,
    EventKind.EXPERIMENT_STARTED,
    EventKind.EXPERIMENT_FAILED,
    EventKind.EXPERIMENT_JUDGED,
    EventKind.EXPERIMENT_REPRODUCED,
    EventKind.FINDING_ADDED,
    EventKind.FINDING_CHANGED,
)
"""Events that change the graph."""

PAGE = Page(
    name="knowledge",
    title="Knowledge",
    path="/knowledge",
    filters=KnowledgeFilters,
    shows=KnowledgeView,
    read=read,
    command=command,
    table=table,
    kinds=KINDS,
    lasts_s=ALWAYS_S,
)

import io
import re
from pathlib import Path

import networkx as nx
import pytest

from configs.errors import UsageError
from db.states import VerdictOutcome
from knowledge.graph.building import build_graph
from knowledge.graph.typed_graph import Graph, NodeKind, Relation, counts, graphml, neighbourhood, node_link
from tests.history.campaign_history import History


def graph_of(history: History, campaign_id: int | None = None) -> Graph:
    with history.database.read() as session:
        return build_graph(session, campaign_id)


def test_every_node_has_a_kind_and_every_edge_a_relation(full_history: History) -> None:
    graph = graph_of(full_history)
    assert {data["kind"] for _, data in graph.nodes(data=True)} == {kind.value for kind in NodeKind}
    for _, _, data in graph.edges(data=True):
        Relation(data["relation"])


def test_what_was_tested_supported_and_refuted_is_an_edge(full_history: History) -> None:
    graph = graph_of(full_history)
    assert graph.has_edge("E-0001", "H-001", key="tests")
    assert graph.has_edge("E-0001", "H-001", key="supports")
    assert graph.has_edge("E-0002", "H-002", key="refutes")
    assert graph.has_edge("E-0001", "F-001", key="supports")
    assert graph.has_edge("H-002", "H-001", key="derived_from")
    assert graph.edges["H-001", "knob:serving.threads", "changes"]["after"] == "1"


def test_reruns_replications_contradictions_and_superseded_findings_are_edges(history: History) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    first = history.judge(hypothesis, VerdictOutcome.SUPPORTED).experiment_id
    history.judge(hypothesis, VerdictOutcome.SUPPORTED, reproduces=first)
    history.judge(hypothesis, VerdictOutcome.REFUTED, effect=(0.0, -0.01, 0.01), reproduces=first)
    other = history.start("other")
    history.judge(history.propose({"serving.threads": 1}, campaign_id=other), VerdictOutcome.SUPPORTED)
    history.judge(hypothesis, VerdictOutcome.SUPPORTED, reproduces=first, versions={"torch": "3.0"})
    graph = graph_of(history)
    assert set(graph["E-0002"]["E-0001"]) == {"reproduces"}
    assert set(graph["E-0003"]["E-0001"]) == {"reproduces"}
    assert set(graph["E-0002"]["F-001"]) == {"reproduces"}
    assert set(graph["E-0004"]["F-001"]) == {"replicates"}
    assert "E-0001" not in graph["E-0004"]
    assert graph.has_edge("E-0003", "F-001", key="contradicts")
    assert graph.has_edge("F-002", "F-001", key="supersedes")


@pytest.fixture
def rerun_history(full_history: History) -> History:
    """With a rerun that agrees, and another campaign that does."""
    full_history.judge(1, VerdictOutcome.SUPPORTED, reproduces=1)
    other = full_history.start("other")
    again = full_history.propose({"serving.threads": 1}, campaign_id=other)
    full_history.judge(again, VerdictOutcome.SUPPORTED)
    return full_history


def test_graphml_comes_back_as_it_was_written(rerun_history: History) -> None:
    graph = graph_of(rerun_history)
    assert {"reproduces", "replicates"} < set(counts(graph)[1])
    back = nx.read_graphml(io.BytesIO(graphml(graph).encode()), force_multigraph=True)
    assert dict(back.nodes(data=True)) == dict(graph.nodes(data=True))
    assert sorted((s, t, d["relation"]) for s, t, d in back.edges(data=True)) == sorted(
        (s, t, d["relation"]) for s, t, d in graph.edges(data=True)
    )


def test_a_text_that_is_no_xml_is_written_all_the_same(history: History) -> None:
    history.judge(
        history.propose({"serving.threads": 1}),
        VerdictOutcome.INFEASIBLE,
        effect=None,
        failure=("crashed", "\x1b[31mout of memory\x00"),
    )
    back = nx.read_graphml(io.BytesIO(graphml(graph_of(history)).encode()), force_multigraph=True)
    assert (
        back.nodes["E-0001"]["failure"]
        == "\N{REPLACEMENT CHARACTER}[31mout of memory\N{REPLACEMENT CHARACTER}"
    )


def test_node_link_json_comes_back_as_it_was_written(rerun_history: History) -> None:
    graph = graph_of(rerun_history)
    told = {each["relation"] for each in node_link(graph)["edges"]}
    assert {"reproduces", "replicates"} < told
    back = nx.node_link_graph(node_link(graph), edges="edges", directed=True, multigraph=True)
    assert nx.utils.graphs_equal(back, graph)


def test_a_neighbourhood_goes_both_ways_and_no_further_than_asked(full_history: History) -> None:
    graph = graph_of(full_history)
    near = neighbourhood(graph, "F-001")
    assert nx.utils.graphs_equal(near, graph.subgraph(near))
    assert set(near) == {
        "F-001",
        "E-0001",
        "knob:serving.threads",
        "model:reference@ffffffffffff",
        "hardware:cpu:Example CPU:2 cores",
    }
    assert set(near) < set(neighbourhood(graph, "F-001", depth=2)) <= set(graph)
    hardware = graph.nodes["hardware:cpu:Example CPU:2 cores"]
    assert (hardware["title"], hardware["target"]) == ("Example CPU (2 cores)", "cpu:Example CPU:2 cores")


def test_a_neighbourhood_is_told_the_nearest_first_and_by_every_process_alike(full_history: History) -> None:
    graph = graph_of(full_history)
    near = neighbourhood(graph, "F-001", depth=2)
    steps = nx.single_source_shortest_path_length(graph.to_undirected(as_view=True), "F-001")
    place = {node: number for number, node in enumerate(graph)}
    assert len({steps[node] for node in near}) == 3
    assert list(near) == sorted(near, key=lambda node: (steps[node], place[node]))


def test_a_node_that_is_not_there_is_refused(full_history: History) -> None:
    with pytest.raises(UsageError, match="H-099 is not in the graph"):
        neighbourhood(graph_of(full_history), "H-099")
    with pytest.raises(UsageError) as near:
        neighbourhood(graph_of(full_history), "knob:serving.thread")
    assert near.value.hint.startswith("Did you mean knob:serving.threads")


def test_one_campaign_shows_its_own_experiments_and_the_findings_they_bear_on(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    other = history.start("other")
    history.judge(history.propose({"serving.threads": 1}, campaign_id=other), VerdictOutcome.SUPPORTED)
    history.judge(history.propose({"serving.threads": 4}, campaign_id=other), VerdictOutcome.SUPPORTED)
    graph = graph_of(history, history.campaign_id)
    kinds, _ = counts(graph)
    assert {name for name in graph if name.startswith(("E-", "F-", "C-"))} == {"C-1", "E-0001", "F-001"}
    assert kinds["hypothesis"] == 1
    assert all("kind" in data for _, data in graph.nodes(data=True))


def test_the_page_of_the_graph_names_every_kind_and_relation_and_no_other() -> None:
    page = (Path(__file__).parents[3] / "docs" / "graph.md").read_text(encoding="utf-8")
    for title, names in (("## Nodes", NodeKind), ("## Edges", Relation)):
        part = page.partition(f"{title}\n")[2].partition("\n## ")[0]
        assert re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE) == [each.value for each in names]

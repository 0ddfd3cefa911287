"""The knowledge page: the neighbourhood in SQL, the tree, the picture, filters, the canvas' data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from agent.asking.answers import MODEL_GONE
from agent.asking.preview import Ground
from configs.errors import AutoinferError, UsageError
from configs.settings import Settings
from dashboard import graph_data
from dashboard.app import create_app
from dashboard.charts.neighbourhood import picture
from dashboard.graph_data import canvas, canvas_json
from dashboard.mcp import finding_answers
from dashboard.pages.knowledge import KnowledgeFilters
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.states import VerdictOutcome
from knowledge.findings.told import Telling, tell
from knowledge.findings.verdict_fact import Saying
from knowledge.graph.building import build_graph, sketch_graph
from knowledge.graph.layout import BLOCK_ROWS, layout
from knowledge.graph.pieces import OF_EVIDENCE
from knowledge.graph.tree import Branch, tree
from knowledge.graph.typed_graph import NodeKind, Relation, neighbourhood
from knowledge.queries.around import around, newest_finding
from knowledge.queries.things import Things, list_things
from tests.history.campaign_history import History, a_full_history


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return a_full_history(tmp_path_factory.mktemp("knowledge"))


@pytest.fixture(scope="module")
def client(history: History) -> TestClient:
    app = create_app(Settings(data_dir=Path("unused")), history.database)
    return TestClient(app, base_url="http://127.0.0.1")


@pytest.mark.parametrize("node", ["F-001", "H-002", "E-0001"])
def test_one_step_around_a_node_is_what_the_whole_graph_has_there(history: History, node: str) -> None:
    with history.database.read() as session:
        near, whole = around(session, node, 1).graph, build_graph(session)
    expected = neighbourhood(whole, node)
    assert set(near) == set(expected)
    assert set(near.edges(keys=True)) == set(expected.edges(keys=True))


def test_a_walk_goes_not_through_a_campaign_but_begins_at_one(history: History) -> None:
    with history.database.read() as session:
        assert "H-006" not in around(session, "E-0003", 2).graph
        assert {"H-001", "H-006", "model:reference@ffffffffffff"} <= set(around(session, "C-1", 1).graph)
        assert "H-001" in around(session, "knob:serving.threads", 1).graph
        assert "C-1" in around(session, "hardware:cpu:Example CPU:2 cores", 1).graph


def test_a_node_that_is_not_there_is_told(history: History) -> None:
    with history.database.read() as session, pytest.raises(UsageError, match="H-099 is not in the graph"):
        around(session, "H-099", 1)


def names(branch: Branch) -> list[str]:
    return [branch.node] * (not branch.again) + [name for each in branch.branches for name in names(each)]


def test_the_tree_and_the_picture_have_every_node_once(history: History) -> None:
    with history.database.read() as session:
        graph = around(session, newest_finding(session) or "", 3).graph
    middle = next(iter(node for node in graph if node.startswith("F-")))
    assert sorted(names(tree(graph, middle))) == sorted(graph)
    drawn = picture(graph, middle)
    assert sorted(each.id for each in drawn.nodes) == sorted(graph)
    assert len({(each.x, each.y) for each in drawn.nodes}) == len(graph)


def test_the_picture_begins_with_the_node_in_the_middle_and_what_it_came_from(tmp_path: Path) -> None:
    history = a_full_history(tmp_path)
    late = history.propose(
        {"serving.threads": 1, "serving.dtype": "bfloat16"}, claim="Both are faster.", parents=[2]
    )
    history.judge(late, VerdictOutcome.SUPPORTED)
    with history.database.read() as session:
        whole = build_graph(session)
    middle = format_label(Noun.HYPOTHESIS, late)
    experiment = next(each for each, _, kind in whole.in_edges(middle, keys=True) if kind == Relation.TESTS)
    found = picture(whole, middle)
    drawn = {each.id: each.y for each in found.nodes}
    assert whole.has_edge("H-002", "H-001", Relation.DERIVED_FROM)
    downwards = sorted((node for node in drawn if node.startswith("H-")), key=drawn.__getitem__)
    assert set(downwards[:3]) == {"H-001", "H-002", middle}
    assert drawn[experiment] <= drawn[downwards[2]]
    told = {each.id for each in found.nodes if "on" in each.looks.split()}
    assert {"H-001", "H-002", middle, experiment} <= told
    assert any(each.id == "H-002>H-001" and "on" in each.looks.split() for each in found.lines)


def test_what_is_new_moves_nothing_on_the_canvas_or_in_the_picture(tmp_path: Path) -> None:
    history = a_full_history(tmp_path)
    with history.database.read() as session:
        old, near = layout(sketch_graph(session)), around(session, "H-001", 2).graph
    before = {each.id: (each.x, each.y) for each in picture(near, "H-001").nodes}
    more = history.propose(
        {"serving.threads": 1, "serving.dtype": "bfloat16"}, claim="Both are faster.", parents=[1]
    )
    history.judge(more, VerdictOutcome.SUPPORTED)
    with history.database.read() as session:
        new, near = layout(sketch_graph(session)), around(session, "H-001", 2).graph
    after = {each.id: (each.x, each.y) for each in picture(near, "H-001").nodes}
    assert set(old) < set(new)
    assert {node: new[node] for node in old} == old
    assert set(before) < set(after)
    assert {node: after[node] for node in before} == before


def test_things_are_searched_by_kind_lever_relation_and_text(history: History) -> None:
    with history.database.read() as session:

        def ids(**asked: object) -> list[str]:
            return [each.id for each in list_things(session, Things(**asked), 50).items]  # type: ignore[arg-type]

        assert ids(text="bfloat16", kind=NodeKind.HYPOTHESIS) == ["H-002"]
        assert ids(relation=Relation.REFUTES) == ["E-0002"]
        assert ids(relation=Relation.DERIVED_FROM) == ["H-002"]
        assert "H-001" in ids(lever="threads")
        assert "H-001" not in ids(text="%")
        assert {each[0] for each in ids()} == set("CEFH")


def test_experiments_are_found_by_what_they_say_as_the_graph_has_it(tmp_path: Path) -> None:
    history = a_full_history(tmp_path)
    agrees = history.judge(1, VerdictOutcome.SUPPORTED, reproduces=1).experiment_id
    open_still = history.judge(1, VerdictOutcome.INCONCLUSIVE, reproduces=1).experiment_id
    other = history.start("other")
    history.judge(history.propose({"serving.threads": 1}, campaign_id=other), VerdictOutcome.SUPPORTED)
    with history.database.read() as session:
        graph = build_graph(session)
        for relation in OF_EVIDENCE.values():
            asked = Things(NodeKind.EXPERIMENT, relation=relation)
            found = {each.id for each in list_things(session, asked, 50).items}
            edges = graph.edges(keys=True)
            assert found == {s for s, _, key in edges if key == relation and s.startswith("E-")}, relation
        reruns = list_things(session, Things(relation=Relation.REPRODUCES), 50).items
    assert [each.id for each in reruns] == [f"E-{each:04}" for each in (open_still, agrees)]


def test_the_filter_of_relations_offers_each_that_a_verdict_has(client: TestClient) -> None:
    page = client.get("/knowledge").text
    offered = page.partition('<select name="relation">')[2].partition("</select>")[0]
    assert [each.value for each in OF_EVIDENCE.values() if f'value="{each.value}"' not in offered] == []


def test_filters_leave_positions_as_they_are(history: History) -> None:
    with history.database.read() as session:
        graph = sketch_graph(session)
    whole = {each[0]: each[4:] for each in canvas(graph, KnowledgeFilters())["nodes"]}
    some = canvas(graph, KnowledgeFilters(relation=Relation.REFUTES))
    assert [each[2] for each in some["edges"]] == ["refutes"]
    assert {each[0]: each[4:] for each in some["nodes"]} == {
        node: whole[node] for node in (each[0] for each in some["nodes"])
    }


def test_the_data_is_made_again_after_what_may_change_the_graph_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = a_full_history(tmp_path)
    made = []
    monkeypatch.setattr(graph_data, "canvas_json", lambda *given: made.append(1) or canvas_json(*given))
    client = TestClient(
        create_app(Settings(data_dir=tmp_path), history.database), base_url="http://127.0.0.1"
    )

    def nodes(accepts: str = "gzip") -> set[str]:
        answer = client.get("/knowledge/graph.json", headers={"accept-encoding": accepts})
        assert answer.headers.get("content-encoding") == ("gzip" if accepts == "gzip" else None)
        return {each[0] for each in answer.json()["nodes"]}

    before = nodes()
    assert nodes("identity") == before
    with history.database.write() as session:
        events.append(session, EventKind.NOTE_ADDED, "nothing of the graph")
    assert nodes() == before
    assert len(made) == 1
    history.propose(
        {"serving.threads": 1, "serving.dtype": "bfloat16"}, claim="Both are faster.", parents=[1]
    )
    assert len(nodes() - before) == 1
    assert len(made) == 2
    history.database.close()


def test_the_page_has_the_tree_the_picture_and_links(client: TestClient) -> None:
    html = client.get("/knowledge?node=H-002&depth=1").text
    assert 'role="tree"' in html
    assert 'role="treeitem"' in html
    assert 'aria-label="Refuted"' in html or 'aria-label="refuted"' in html
    assert "<svg" in html
    assert " style=" not in html
    told = client.get("/knowledge.json?node=H-002&depth=1").json()["around"]
    assert {"source": "E-0002", "relation": "refutes", "target": "H-002"} in told["edges"]
    assert client.get("/knowledge?node=H-002&view=table").text.count("<table") == 2


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/knowledge", 200, "Newest of"),
        ("/knowledge?node=%3Cscript%3E", 404, "is not a label"),
        ("/knowledge?node=knob:%3Cscript%3E", 404, "is not in the graph"),
        ("/knowledge?depth=9", 422, "depth:"),
        ("/knowledge?whole=1&q=nothing-like-it", 200, "Nothing fits what you asked for."),
        ("/knowledge?q=%22%3Cb%3E", 200, "&lt;b&gt;"),
        ("/knowledge/F-001", 200, "Evidence"),
        ("/knowledge/F-099", 404, "F-099 does not exist"),
        ("/knowledge/export.json", 200, '"nodes"'),
        ("/knowledge/export.graphml", 200, "<graphml"),
        ("/knowledge/graph.json", 200, '"nodes"'),
    ],
)
def test_addresses_answer_or_tell(client: TestClient, path: str, status: int, words: str) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert words in answer.text
    assert "<script>alert" not in answer.text


def test_the_page_of_what_was_written_down_says_what_it_says_of_which_change_and_who_wrote_it(
    tmp_path: Path,
) -> None:
    database = a_full_history(tmp_path).database
    telling = Telling(
        "Two threads are plenty", ("serving.threads=2",), Saying.DOES_NOT_HELP, by="mcp:token:lab"
    )
    with database.write() as session:
        label = format_label(Noun.FINDING, tell(session, telling, 1).id)
    app = create_app(Settings(data_dir=Path("unused")), database)
    page = TestClient(app, base_url="http://127.0.0.1").get(f"/knowledge/{label}").text
    database.close()
    section = " ".join(re.sub("<[^>]*>", " ", page.partition('id="fd-change"')[2]).split())
    assert "serving.threads 2 says it does not help written by the agent with the token lab" in section


def test_without_the_libraries_a_sentence_stands_for_the_canvas(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dashboard.rendering.environment import environment

    monkeypatch.setitem(environment().globals, "is_installed", lambda path: False)
    html = client.get("/knowledge?whole=1").text
    assert "python -m dashboard.browser_libraries" in html
    assert 'id="canvas"' not in html
    assert "H-001" in html


def test_the_whole_graph_stands_lever_by_lever_until_filters_leave_single_things(client: TestClient) -> None:
    whole = client.get("/knowledge?whole=1").text
    lanes = whole.partition('id="kn-lanes"')[2].partition("</section>")[0]
    assert 'id="ln-threads"' in lanes
    assert "/experiments/E-0001" in lanes
    for query in ("kind=finding", "q=threads", "relation=tests"):
        assert 'id="kn-lanes"' not in client.get(f"/knowledge?whole=1&{query}").text
    nothing = client.get("/knowledge?whole=1&lever=nothing-like-it").text
    assert 'id="kn-lanes"' not in nothing
    assert "Nothing fits what you asked for." in nothing


def test_knobs_alone_are_drawn_and_the_list_says_where_they_are(client: TestClient) -> None:
    page = client.get("/knowledge?whole=1&kind=knob").text
    assert "The whole graph: its knobs." in page
    assert 'id="canvas"' in page
    assert "Knobs are drawn above" in page
    nothing = client.get("/knowledge?whole=1&q=nothing-like-it").text
    assert "The whole graph: 0 things with" in nothing
    assert 'id="canvas"' not in nothing


def test_each_block_of_rows_on_the_canvas_names_its_lever(history: History) -> None:
    with history.database.read() as session:
        found = canvas(sketch_graph(session), KnowledgeFilters())
    cells = {tuple(each[4:]) for each in found["nodes"] if each[1] == "hypothesis"}
    blocks = [row // BLOCK_ROWS for _, _, row in found["lanes"]]
    assert sorted(blocks) == sorted({row // BLOCK_ROWS for _, row in cells})
    assert {(column, row) for _, column, row in found["lanes"]} <= cells
    assert "threads" in {lever for lever, _, _ in found["lanes"]}


def test_an_empty_database_says_what_to_do(tmp_path: Path) -> None:
    from tests.new_database import new_database

    database = new_database(tmp_path)
    try:
        html = TestClient(create_app(Settings(data_dir=tmp_path), database), base_url="http://127.0.0.1")
        for path in ("/knowledge", "/knowledge?whole=1"):
            page = html.get(path).text
            assert "Nothing is known yet." in page
            assert "autoinfer run" in page
            assert 'id="canvas"' not in page
    finally:
        database.close()


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", "Which knob?"),
        ("?about=serving.threads&on=cpu", "serving.threads on cpu"),
        ("?question=why-not&about=H-002", "E-0002</a> found it refuted"),
        ("?question=led-to&about=F-001", "Where it comes from"),
        ("?question=if-fell&about=E-0001", "F-001</a> would fall"),
        ("?question=why-not", "About what?"),
    ],
)
def test_every_question_has_a_page_with_its_command_and_its_twin(
    client: TestClient, query: str, says: str
) -> None:
    page = client.get(f"/knowledge/ask{query}")
    assert page.status_code == 200
    assert says in page.text
    assert "autoinfer graph " in page.text
    answer = client.get(f"/knowledge/ask.json{query}").json()["answer"]
    assert (answer is None) == (says in ("Which knob?", "About what?"))


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("?about=serving.thread", "Did you mean serving.threads?"),
        ("?about=serving.threads&on=H200", "Nothing is known of hardware"),
        ("?question=why-not&about=H-99", "H-099 does not exist; the last is H-007."),
        ("?question=led-to&about=<script>", "is not a label"),
        ("?question=untested&campaign=C-9", "C-9 does not exist"),
    ],
)
def test_a_question_about_what_there_is_not_is_answered_with_what_there_is(
    client: TestClient, query: str, says: str
) -> None:
    page = client.get(f"/knowledge/ask{query}")
    assert page.status_code == 404
    assert says in page.text
    assert "<script>" not in page.text.partition("<main")[2]


def test_what_a_question_may_be_about_is_said_beside_its_label(client: TestClient) -> None:
    page = client.get("/knowledge/ask?question=why-not").text
    choices = client.get("/knowledge/ask.json?question=why-not").json()["choices"]
    said = {each["name"]: each["title"] for each in choices}
    assert said["H-002"] == "bfloat16 is faster."
    assert said["serving.threads"] is None
    assert "bfloat16 is faster." in page
    assert client.get("/knowledge/ask.json?question=why-not&about=H-002").json()["choices"] == []


def test_what_is_untested_says_on_its_page_why_it_can_t_be_told_and_what_to_do(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(session: object, campaign_id: int) -> Ground:
        raise AutoinferError("The folder /models/tiny is not there.", "Name another.")

    monkeypatch.setattr("dashboard.pages.ask.ground_of", gone)
    page = client.get("/knowledge/ask?question=untested&campaign=C-1")
    assert page.status_code == 200
    assert "be told here: The folder /models/tiny is not there." in page.text
    assert "put it back in its place" in page.text
    assert "What led to it?" in page.text, "the other questions are at hand"
    twin = client.get("/knowledge/ask.json?question=untested&campaign=C-1").json()["answer"]
    assert twin["sections"][0]["none"] == MODEL_GONE


def test_a_page_asks_the_graph_as_it_is_after_an_event(tmp_path: Path) -> None:
    history = a_full_history(tmp_path)
    client = TestClient(
        create_app(Settings(data_dir=tmp_path), history.database), base_url="http://127.0.0.1"
    )
    asked = "/knowledge/ask.json?about=serving.threads"
    before = client.get(asked).json()["answer"]["sentence"]
    history.judge(6, VerdictOutcome.REFUTED, effect=(0.2, 0.1, 0.3))
    after = client.get(asked).json()["answer"]["sentence"]
    assert ("1 refuted" in before, "1 refuted" in after) == (False, True)
    near = client.get("/knowledge/export.json?node=F-001").json()
    assert {each["id"] for each in near["nodes"]} >= {"F-001", "E-0001", "knob:serving.threads"}
    assert len(near["nodes"]) < len(client.get("/knowledge/export.json").json()["nodes"])
    assert client.get("/knowledge/export.graphml?node=H-77").status_code == 404
    history.close()


def test_a_rerun_and_another_campaign_make_a_finding_stronger_each_in_its_own_word(tmp_path: Path) -> None:
    history = History(tmp_path)
    client = TestClient(
        create_app(Settings(data_dir=Path("unused")), history.database), base_url="http://127.0.0.1"
    )
    hypothesis = history.propose({"serving.threads": 1})

    def shown() -> tuple[str, str]:
        (bars,) = re.findall(r'aria-label="(strength [^"]*)"', client.get("/knowledge").text)
        return bars, client.get("/knowledge/F-001").text

    first = history.judge(hypothesis, VerdictOutcome.SUPPORTED)
    bars, page = shown()
    assert bars == "strength 2 of 4"
    assert "rests on one result" in page
    history.judge(hypothesis, VerdictOutcome.SUPPORTED, reproduces=first.experiment_id)
    bars, page = shown()
    assert bars == "strength 3 of 4"
    assert "rests on one campaign, in which reruns agree" in page
    other = history.propose({"serving.threads": 1}, campaign_id=history.start("second"))
    history.judge(other, VerdictOutcome.SUPPORTED)
    bars, page = shown()
    assert bars == "strength 4 of 4"
    assert "rests on campaigns that agree, 2 campaigns for it" in page
    history.close()


def test_a_dispute_is_marked_in_lists_and_says_what_answers_it_on_the_page_and_to_a_coding_agent(
    tmp_path: Path,
) -> None:
    history = History(tmp_path)
    history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    elsewhere = history.propose({"serving.threads": 1}, campaign_id=history.start("second"))
    no_gain = (0.0, -0.01, 0.01)
    history.judge(elsewhere, VerdictOutcome.REFUTED, effect=no_gain, target="cpu:Other CPU:64 cores")
    app = create_app(Settings(data_dir=Path("unused")), history.database)
    client = TestClient(app, base_url="http://127.0.0.1")
    assert client.get("/knowledge").text.count("disputes it.") == 2
    both_lists = client.get("/knowledge?whole=1&kind=finding").text
    assert both_lists.count("disputes it.") == 4
    page = client.get("/knowledge/F-001").text
    assert "Answered by <code>autoinfer promote E-0001 --target DEVICE</code>" in page
    assert "DEVICE is one with Other CPU" in page
    with history.database.read() as session:
        (asked,) = finding_answers.finding(session, "F-001").disputes
    assert asked.quoted.endswith(
        "Answered by: autoinfer promote E-0001 --target DEVICE (DEVICE is one with Other CPU)"
    )
    history.close()

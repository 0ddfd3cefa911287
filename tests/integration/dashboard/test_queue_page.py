"""The queue's page and its acts, by an app on a campaign's history."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import event
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from dashboard.pages.queue import MOST_LEVERS
from db import events
from db.event_kinds import EventKind
from db.models import Campaign, Hypothesis
from experiments.space.loading import load_space
from tests.history.campaign_history import History
from tests.new_database import new_database

BASE = "http://127.0.0.1"


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    found = History(tmp_path)
    for rank, change in enumerate(
        ({"serving.threads": 1}, {"serving.dtype": "bfloat16"}, {"serving.compile": "default"}), start=1
    ):
        number = found.propose(
            change, claim=f"<b>Claim</b> {rank}.", rank=rank, rank_reason=f"{rank}: it pays"
        )
        with found.database.write() as session:
            row = session.get_one(Hypothesis, number)
            row.score = {
                "score": 0.001 / rank,
                "gain": 0.1,
                "p_quality": 0.9,
                "p_feasible": 0.8,
                "cost_s": 100.0,
                "directive_factor": 1.0,
                "pinned": False,
                "paused": False,
            }
    found.move(2, 3, 2, "overtook H-003, after E-0001 was refuted (event 7)")
    with found.database.write() as session:
        session.get_one(Campaign, 1).budget = {"wall_s": 250.0, "spent_s": 0.0}
    yield found
    found.close()


@pytest.fixture
def client(history: History, tmp_path: Path) -> TestClient:
    app = create_app(Settings(data_dir=tmp_path), history.database)
    return TestClient(app, base_url=BASE, follow_redirects=False)


def seen(client: TestClient) -> str:
    return re.findall(r'name="seen" value="([\d.]+)"', client.get("/queue").text)[0]


def send(client: TestClient, act: str, htmx: bool = True, **fields: str) -> tuple[int, str]:
    headers = {"origin": BASE, **({"hx-request": "true"} if htmx else {})}
    answer = client.post(f"/queue/{act}", data={"campaign": "C-1", **fields}, headers=headers)
    return answer.status_code, answer.headers.get("location", answer.text)


def test_the_page_shows_order_reason_cause_score_and_where_the_budget_ends(client: TestClient) -> None:
    page = client.get("/queue").text
    assert re.findall(r'<tr (?:class="cut" )?id="(H-\d+|budget-ends)', page) == [
        "H-001",
        "H-002",
        "budget-ends",
        "H-003",
    ]
    assert "Three queued; two fit the budget." in page
    assert 'Overtook <a class="nb" href="/hypotheses/H-003">' in page
    assert "10.0 × 0.90 × 0.80 ÷ 1.7" in page
    assert "&lt;b&gt;Claim&lt;/b&gt; 1." in page
    assert "<b>Claim" not in page


def test_of_what_changes_many_knobs_at_once_six_stand_in_the_row(
    client: TestClient, history: History
) -> None:
    many = {"drafting.method": "mtp", "pruning.method": "depth", "serving.threads": 1}
    many |= {"serving.dtype": "bfloat16", "serving.compile": "default"}
    number = history.propose(many, claim="A dozen knobs.", rank=4, rank_reason="4: it pays")
    page = client.get("/queue").text
    row = page[page.index(f'id="H-{number:03d}"') :]
    more = int(re.findall(rf'<a href="/hypotheses/H-{number:03d}">and (\d+) more</a>', row)[0])
    shown = row[: row.index(" more</a>")].count('class="df-k"')
    assert shown == 6
    changed = client.get(f"/hypotheses/H-{number:03d}.json").json()["change"]
    assert more == len(changed) - shown > 0


def test_the_twins_say_the_same_and_filters_are_done_by_the_database(client: TestClient) -> None:
    assert [row["id"] for row in client.get("/queue.json?lever=dtype").json()["board"]["rows"]["items"]] == [
        "H-002"
    ]
    assert [row["id"] for row in client.get("/queue.json?q=compile").json()["board"]["rows"]["items"]] == [
        "H-003"
    ]
    assert client.get("/queue.csv").text.splitlines()[1].startswith("1,H-001,")
    assert client.get("/queue.json?campaign=C-9").status_code == 404


def test_the_link_of_many_levers_together_leads_to_what_changes_them(
    client: TestClient, history: History
) -> None:
    levers = "+".join(sorted({knob.lever for knob in load_space("vllm").knobs}))
    with history.database.write() as session:
        session.get_one(Hypothesis, 2).lever = levers
    link = re.findall(rf'href="([^"]*)" title="{re.escape(levers)}"', client.get("/queue").text)[-1]
    found = client.get(html.unescape(link))
    assert (found.status_code, re.findall(r'id="(H-\d+)"', found.text)) == (200, ["H-002"])
    for page in ("hypotheses", "predictions", "experiments", "knowledge"):
        assert client.get(f"/{page}", params={"lever": levers}).status_code == 200, page


def test_few_levers_stand_above_the_queue_and_the_others_are_folded(
    client: TestClient, history: History
) -> None:
    assert 'id="q-more"' not in client.get("/queue").text
    changes = [{"serving.threads": each} for each in (4, 8, 16)]
    changes += [{**each, "serving.dtype": "bfloat16"} for each in changes]
    for lever, change in zip("uvwxyz", changes, strict=True):
        hypothesis = history.propose(change, rank=99)
        with history.database.write() as session:
            session.get_one(Hypothesis, hypothesis).lever = lever
    nav = client.get("/queue").text.partition('class="q-parts"')[2].partition("</nav>")[0]
    sight, _, folded = nav.partition("<details")
    assert sight.count('title="') == MOST_LEVERS
    assert {"x", "y", "z"} <= set(re.findall('title="([^"]*)"', folded))
    chosen = client.get("/queue?lever=z").text.partition('class="q-parts"')[2].partition("<details")[0]
    assert 'aria-current="true" title="z"' in chosen


def test_the_number_of_statements_does_not_grow_with_the_queue(client: TestClient, history: History) -> None:
    def statements() -> int:
        counted: list[str] = []
        engine = history.database._reader

        def listen(*given: object) -> None:
            counted.append(str(given[2]))

        event.listen(engine, "before_cursor_execute", listen)
        client.get("/queue")
        event.remove(engine, "before_cursor_execute", listen)
        return len(counted)

    few = statements()
    for layers in (1, 2, 3):
        history.propose({"pruning.method": "depth", "pruning.layers_removed": layers}, rank=3 + layers)
    assert statements() == few


def test_a_pin_a_move_and_a_withdrawal_are_done_as_by_the_commands(client: TestClient) -> None:
    assert send(client, "pin", hypothesis="H-003")[0] == 200
    page = client.get("/queue").text
    assert "Pinned; it goes first at the next ranking." in page
    assert send(client, "unpin", hypothesis="H-003", seen=seen(client))[0] == 200
    status, said = send(client, "move", hypothesis="H-003", to="1", seen=seen(client))
    assert (status, "H-003 is put at place 1." in said) == (200, True)
    assert "Goes to 1 at the next ranking." in client.get("/queue").text
    assert send(client, "withdraw", htmx=False, hypothesis="H-003", why="enough", seen=seen(client)) == (
        303,
        "/queue#H-003",
    )
    assert 'id="H-003"' not in client.get("/queue").text


def test_of_two_who_look_at_one_view_the_second_gets_a_sentence_and_loses_nothing(client: TestClient) -> None:
    view = seen(client)
    assert send(client, "pin", hypothesis="H-002", seen=view)[0] == 200
    status, said = send(client, "withdraw", hypothesis="H-002", seen=view)
    assert status == 409
    assert "Somebody changed the queue meanwhile: H-002 is tested before all others." in said
    assert 'id="H-002"' in client.get("/queue").text


def test_of_two_who_act_at_the_same_moment_one_is_done_and_the_other_told(client: TestClient) -> None:
    view, together = seen(client), Barrier(2)

    def act(label: str) -> tuple[int, str]:
        together.wait()
        return send(client, "pin", hypothesis=label, seen=view)

    with ThreadPoolExecutor(2) as pool:
        answers = dict(zip(("H-001", "H-002"), pool.map(act, ("H-001", "H-002")), strict=True))
    assert sorted(status for status, _ in answers.values()) == [200, 409]
    page = client.get("/queue").text
    for label, (status, said) in answers.items():
        assert (f"Unpin {label}" in page) is (status == 200)
        assert (status == 200) or "Somebody changed the queue meanwhile" in said


def test_a_place_is_refused_after_the_order_changed(client: TestClient, history: History) -> None:
    view = seen(client)
    with history.database.write() as session:
        events.append(session, EventKind.QUEUE_RANKED, "Ranked", campaign_id=1, data={"order": [1, 2, 3]})
    status, said = send(client, "move", hypothesis="H-003", to="1", seen=view)
    assert (status, "put in order again meanwhile" in said) == (409, True)


def test_a_lever_is_steered_and_lifted_and_a_campaign_paused_and_stopped(client: TestClient) -> None:
    assert send(client, "steer", kind="ban", lever="dtype")[0] == 200
    assert "Test nothing that changes dtype." in client.get("/queue").text
    assert send(client, "lift", kind="ban", lever="dtype")[0] == 200
    assert send(client, "pause")[0] == 200
    assert "C-1 is paused." in client.get("/queue").text
    status, said = send(client, "resume")
    assert status == 200
    undriven = "no process drives it now. Go on with: autoinfer run --resume C-1"
    assert f"C-1 is no longer paused, but {undriven}" in said, "nothing goes on by itself"
    assert send(client, "stop")[0] == 409
    status, said = send(client, "stop", sure="1")
    assert status == 200
    assert "C-1 has ended. Nothing was judged; go on with: autoinfer run --resume C-1" in said
    assert "C-1 has ended." in client.get("/queue").text
    assert 'id="budget-ends"' not in client.get("/queue").text


@pytest.mark.parametrize(
    ("act", "fields", "why"),
    [
        ("pin", {"hypothesis": "H-999"}, "H-999 does not exist"),
        ("pin", {"hypothesis": "<script>"}, "&lt;script&gt;"),
        ("pin", {}, "says nothing of hypothesis"),
        ("move", {"hypothesis": "H-001", "to": "99"}, "no place 99 in the queue of 3"),
        ("move", {"hypothesis": "H-001", "to": "-1"}, "is no place in the queue"),
        ("steer", {"kind": "pin", "lever": "dtype"}, "nothing to do with a lever"),
        ("steer", {"kind": "cap", "lever": "dtype"}, "How much? A cap takes an amount."),
        ("steer", {"kind": "ban", "lever": "dtyp"}, "no lever"),
        ("resume", {}, "not paused"),
        ("pin", {"hypothesis": "x" * 20_000}, "larger than"),
    ],
)
def test_what_can_not_be_done_is_told_in_a_sentence(
    client: TestClient, act: str, fields: dict[str, str], why: str
) -> None:
    for htmx in (True, False):
        status, said = send(client, act, htmx, **fields)
        assert status == 409
        assert why in said


def test_a_write_from_elsewhere_or_in_another_form_is_refused(client: TestClient) -> None:
    forged = client.post("/queue/stop", data={"campaign": "C-1"}, headers={"origin": "http://evil.example"})
    assert forged.status_code == 403
    assert client.post("/queue/pin", json={"a": 1}, headers={"origin": BASE}).status_code == 409


def test_without_a_campaign_the_page_says_how_to_start_one(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    page = TestClient(create_app(Settings(data_dir=tmp_path), database), base_url=BASE).get("/queue")
    assert (page.status_code, "autoinfer run" in page.text) == (200, True)
    database.close()

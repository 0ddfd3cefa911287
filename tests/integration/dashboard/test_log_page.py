"""The log page of a real server: HTML, JSON, CSV, the stream that resumes, requests that make no sense."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest

from db import events
from db.event_kinds import EventKind
from db.session import open_database
from tests.integration.dashboard.serving import serving
from tests.waiting import PATIENCE_S


def happens(data_dir: Path, text: str) -> int:
    database = open_database(f"sqlite:///{data_dir / 'autoinfer.db'}", create=True)
    try:
        with database.write() as session:
            return events.append(session, EventKind.NOTE_ADDED, text, subject="E-0001")
    finally:
        database.close()


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("dashboard")
    happens(found, "<script>alert(1)</script>")
    return found


@pytest.fixture(scope="module")
def address(data_dir: Path) -> Iterator[str]:
    with serving(data_dir) as found:
        yield found


def get(url: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers or {}), timeout=PATIENCE_S
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()


def first_push(url: str, headers: dict[str, str]) -> tuple[int, str]:
    """Id and HTML of the first push of a stream."""
    asked = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
        assert isinstance(answer, HTTPResponse)
        assert answer.headers["content-type"].startswith("text/event-stream")
        found, lines = 0, []
        for raw in answer:
            line = raw.decode().rstrip("\n")
            if line.startswith("id: "):
                found = int(line[4:])
            elif line.startswith("data: "):
                lines.append(line[6:])
            elif not line and lines:
                return found, "\n".join(lines)
    raise AssertionError("the stream ended")


def test_the_page_and_its_twins_say_the_same(address: str) -> None:
    status, html = get(f"{address}/log")
    assert status == 200
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<script>alert" not in html
    assert 'href="/experiments/E-0001"' in html
    found = json.loads(get(f"{address}/log.json")[1])
    assert [each["text"] for each in found["events"]] == ["<script>alert(1)</script>"]
    assert get(f"{address}/log.csv")[1].splitlines()[0] == "id,at,kind,subject,campaign,text"


def test_an_event_is_pushed_and_who_comes_back_gets_it_too(address: str, data_dir: Path) -> None:
    known = int(json.loads(get(f"{address}/log.json")[1])["last_id"])
    added = happens(data_dir, "it went on")
    for headers, query in (({"Last-Event-ID": str(known)}, ""), ({}, f"?known={known}")):
        pushed, html = first_push(f"{address}/log.stream{query}", headers)
        assert pushed == added
        assert "it went on" in html
        assert "<html" not in html


def test_a_server_that_was_ended_and_started_again_leaves_no_gap(tmp_path: Path) -> None:
    known = happens(tmp_path, "before")
    with serving(tmp_path) as address:
        assert first_push(f"{address}/log.stream", {})[0] == known
    added = [happens(tmp_path, f"meanwhile {number}") for number in range(3)]
    with serving(tmp_path) as address:
        pushed, html = first_push(f"{address}/log.stream", {"Last-Event-ID": str(known)})
    assert pushed == added[-1]
    assert all(f"meanwhile {number}" in html for number in range(3))


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/log?kind=queue", 200, "No event is like that."),
        ("/log?q=nothing+like+this", 200, "No event is like that."),
        (f"/log?q={'x' * 201}", 422, "q:"),
        ("/log?kind=nonsense", 200, "No event is like that."),
        ("/log?since=x", 422, "since:"),
        ("/log?since=99999999999999999999", 422, "since:"),
        ("/log?limit=0", 422, "limit:"),
        ("/log?campaign=C-9", 404, "C-9 does not exist; there is no campaign yet."),
        ("/log?campaign=%3Cb%3E", 404, "is not a label"),
        ("/nothing", 404, "There is no such page."),
        ("/log.json?limit=x", 422, '{"error":"limit:'),
    ],
)
def test_what_makes_no_sense_is_told_in_a_sentence(address: str, path: str, status: int, words: str) -> None:
    found, told = get(f"{address}{path}")
    assert found == status
    assert words in told
    assert "<b>" not in told.replace("<b></b>", "")


def test_the_schema_names_every_page_and_no_stream(address: str) -> None:
    schema = json.loads(get(f"{address}/openapi.json")[1])
    assert {"/log", "/log.json", "/log.csv"} <= set(schema["paths"])
    assert not [path for path in schema["paths"] if path.endswith(".stream")]


def test_a_port_in_use_is_told(address: str, tmp_path: Path) -> None:
    happens(tmp_path, "here")
    port = address.rpartition(":")[2]
    command = [sys.executable, "-m", "cli", "dashboard", "--port", port, "--data-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert f"Port {port} of 127.0.0.1 is in use." in done.stderr
    assert "Traceback" not in done.stderr

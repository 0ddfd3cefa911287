"""The real command by the SDK's own clients: over pipes and over HTTP, with who is refused."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from configs.settings import Settings
from dashboard.mcp.server import make_server
from dashboard.mcp.serving import http_app
from dashboard.mcp.source import Source
from dashboard.page import Ground
from dashboard.web.access import Access, with_token
from tests.integration.cli.command import ROOT, Autoinfer
from tests.integration.cli.test_every_write_is_told import the_packaged_model
from tests.integration.mcp.calling import AUTHOR, INFO, ITS_WORD, caller, over_stdio, words
from tests.new_database import database_url

LIMIT_S = 60.0
PROPOSAL = {"claim": "A draft pays", "assignments": ["drafting.method=ngram", "drafting.draft_tokens=2"]}


def test_a_whole_exchange_over_pipes_on_a_real_database(folder: Path) -> None:
    """By the handshake that clients of today speak; the answer to the proposal is in the queue after."""
    the_packaged_model(Autoinfer(folder))

    async def story() -> None:
        async with over_stdio(folder, "--allow", "propose", mode="legacy") as client:
            call = caller(client)
            assert (await call("summary")).structured["campaign"] == "C-1"
            knobs = (await call("space", assignments=["drafting.method=ngram"])).structured["knobs"]
            assert "drafting.draft_tokens" in {each["name"] for each in knobs}
            shown = (await call("preview", **PROPOSAL)).structured
            assert shown["refusal"] is None
            label = (await call("propose", **PROPOSAL)).structured["id"]
            queued = (await call("queue")).structured["items"]
            assert {each["id"]: each["proposer"] for each in queued}[label] == AUTHOR
            assert (await call("note", text="not allowed")).refused

    asyncio.run(story())
    log = Autoinfer(folder)("log --json").json()
    assert ITS_WORD in log["events"][-1]["text"]


KILLED_CLIENT = """
import asyncio, sys
import psutil
from tests.integration.mcp.calling import over_stdio
from pathlib import Path

async def main():
    async with over_stdio(Path(sys.argv[1])) as client:
        await client.list_tools()
        print(psutil.Process().children()[0].pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_the_server_ends_when_its_client_is_killed(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_CLIENT, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as client:
        assert client.stdout is not None
        server = os.pidfd_open(int(client.stdout.readline()))
        client.send_signal(signal.SIGKILL)
        ended, _, _ = select.select([server], [], [], LIMIT_S)
        os.close(server)
    assert ended, "the server outlived its client"


def test_ctrl_c_ends_the_server_at_once(folder: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, *words(folder)], text=True, cwd=ROOT, **pipes) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(f"this is no JSON\n{json.dumps(call)}\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "autoinfer"
        server.send_signal(signal.SIGINT)
        assert server.wait(LIMIT_S) == -signal.SIGINT


@contextmanager
def over_http(folder: Path, *options: str) -> Iterator[tuple[str, str]]:
    """The real command over HTTP; gives its address and token."""
    command = [sys.executable, *words(folder, "--http", "--port", "0", "--json", *options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            yield told["address"], told["token"]
        finally:
            process.terminate()
            process.wait(LIMIT_S)


async def refused(address: str, **headers: str) -> tuple[int, str]:
    """Status and sentence of a refusal."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accepts = {"accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(timeout=LIMIT_S) as client:
        found = await client.post(address, json=body, headers={**accepts, **headers})
        return found.status_code, found.json().get("error", "")


def test_over_http_who_has_the_token_is_answered_and_nobody_else(folder: Path) -> None:
    async def story(address: str, token: str) -> None:
        bearer = {"authorization": f"Bearer {token}"}
        for mode in ("auto", "legacy"):
            async with httpx2.AsyncClient(headers=bearer, timeout=LIMIT_S) as http:
                transport = streamable_http_client(address, http_client=http)
                async with Client(transport, client_info=INFO, mode=mode) as client:
                    call = caller(client)
                    assert (await call("queue")).structured["total"] == 3
                    assert (await call("note", text=f"by {mode}")).structured["author"] == AUTHOR
        status, said = await refused(address)
        assert (status, "asks for a token" in said) == (401, True)
        assert (await refused(address, authorization="Bearer wrong"))[0] == 401
        assert (await refused(address, authorization=f"Basic {token}"))[0] == 401
        assert (await refused(f"{address}?token={token}"))[0] == 401, "no token in an address"
        assert (await refused(address, **bearer, origin="http://evil.example"))[0] == 403
        assert (await refused(address, **bearer, host="evil.example"))[0] == 403
        assert (await refused(address, **bearer, **{"sec-fetch-site": "cross-site"}))[0] == 403

    with over_http(folder, "--allow-writes") as (address, token):
        asyncio.run(story(address, token))
    events = Autoinfer(folder)("log --json").json()["events"]
    assert [each["text"] for each in events[-2:]] == [
        f"by auto (by {ITS_WORD}).",
        f"by legacy (by {ITS_WORD}).",
    ]


def test_who_wrote_is_told_by_the_token_whatever_a_client_calls_itself(folder: Path) -> None:
    """A token of the user's has a name: neither another client nor another token can write in that name."""
    autoinfer = Autoinfer(folder)
    mine, other = (autoinfer(f"token new {each}").out.strip() for each in ("desk", "lap.top"))
    proven = "mcp:token:desk"

    def http(token: str) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=LIMIT_S)

    async def story(address: str) -> None:
        for mode in ("auto", "legacy"):
            async with (
                http(mine) as sent,
                Client(
                    streamable_http_client(address, http_client=sent), client_info=INFO, mode=mode
                ) as client,
            ):
                call = caller(client)
                assert (await call("note", text=f"by {mode}")).structured["author"] == proven
                assert not (await call("steer", kind="boost", lever="drafting")).refused or mode == "legacy"
        impostor = Implementation(name="mcp:token:desk", version="1")
        async with (
            http(other) as sent,
            Client(streamable_http_client(address, http_client=sent), client_info=impostor) as client,
        ):
            call = caller(client)
            assert (await call("note", text="me")).structured["author"] == "mcp:token:lap.top"
            assert "can't be lifted" in (await call("lift", kind="boost", lever="drafting")).text
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        accepts = {"accept": "application/json, text/event-stream"}
        begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        look = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
        async with http(mine) as desk, http(other) as laptop:
            begun = await desk.post(address, json=begin, headers=accepts)
            held = {**accepts, "mcp-session-id": begun.headers["mcp-session-id"]}
            assert (await laptop.post(address, json=look, headers=held)).status_code == 404, "not its session"
            assert (await desk.post(address, json=look, headers=held)).status_code == 200

    with over_http(folder, "--allow-writes") as (address, token):
        assert token is None, "none is made where there are some"
        asyncio.run(story(address))
    told = [each["text"] for each in autoinfer("log --json").json()["events"]]
    assert "by auto (by the agent with the token desk)." in told
    assert told[-1] == "me (by the agent with the token lap.top)."


@pytest.mark.parametrize(
    ("access", "status"), [(with_token("t" * 20), 401), (Access(asks=True), 401)], ids=["one", "none"]
)
def test_an_access_that_nobody_meets_answers_nobody(folder: Path, access: Access, status: int) -> None:
    source = Source(database_url(folder))
    app = http_app(make_server(source, Ground(Settings(data_dir=folder))), access, loopback=True)

    async def story() -> None:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            assert (await client.post("/mcp", headers={"authorization": "Bearer "})).status_code == status
            assert (await client.get("/mcp")).status_code == status

    asyncio.run(story())


def test_a_command_line_that_means_nothing_is_refused(folder: Path) -> None:
    autoinfer = Autoinfer(folder)
    for line, says in (
        ("mcp --allow everything", "'everything' is no tool that writes"),
        ("mcp --port 1", "are for --http"),
        ("mcp --json", "are for --http"),
    ):
        done = autoinfer(line)
        assert done.code == 2
        assert says in done.err
        assert "Traceback" not in done.err


def test_over_http_there_must_be_a_database_whose_tokens_are_known(tmp_path: Path) -> None:
    done = Autoinfer(tmp_path / "data")("mcp --http --port 0")
    assert done.code == 1
    assert "There is no database" in done.err

"""Clients of the official SDK: on a server in this process, on a process by its pipes, and over HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, Implementation

from configs.settings import Settings
from dashboard.mcp.server import make_server
from dashboard.mcp.source import Source
from dashboard.page import Ground
from tests.integration.cli.command import ROOT
from tests.new_database import database_url

NAME = "a-coding agent/1"
AUTHOR = "mcp:a-coding-agent-1"
ITS_WORD = "an agent that says it is a-coding-agent-1"
"""How the author is told: the name is the client's own word."""
INFO = Implementation(name=NAME, version="1.0")


@dataclass(frozen=True)
class Told:
    """What a tool answered."""

    refused: bool
    text: str
    structured: Any


def told(result: CallToolResult) -> Told:
    (content,) = result.content
    if not result.is_error:
        assert json.loads(content.text) == result.structured_content, "it is told twice, and alike"
    return Told(bool(result.is_error), content.text, result.structured_content)


Call = Callable[..., Awaitable[Told]]


def caller(client: Client) -> Call:
    async def call(tool: str, **arguments: Any) -> Told:
        return told(await client.call_tool(tool, arguments))

    return call


@asynccontextmanager
async def in_process(
    folder: Path, *allowed: str, busy_timeout_s: float = 15.0, client_name: str = NAME
) -> AsyncIterator[Client]:
    """A client of a server over the database in this folder."""
    source = Source(database_url(folder), busy_timeout_s)
    server = make_server(source, Ground(Settings(data_dir=folder)), allowed)
    try:
        async with Client(server, client_info=Implementation(name=client_name, version="1")) as client:
            yield client
    finally:
        source.close()


def words(data_dir: Path, *options: str) -> list[str]:
    """The command line of a server."""
    return ["-m", "cli", "mcp", "--data-dir", str(data_dir), *options]


@asynccontextmanager
async def over_stdio(data_dir: Path, *options: str, mode: str = "auto") -> AsyncIterator[Client]:
    """A client that starts the real command and speaks with it over pipes."""
    parameters = StdioServerParameters(
        command=sys.executable, args=words(data_dir, *options), env={"PYTHONPATH": str(ROOT)}, cwd=ROOT
    )
    async with Client(stdio_client(parameters), client_info=INFO, mode=mode) as client:
        yield client


def ask(folder: Path, tool: str, *, allowed: tuple[str, ...] = (), **arguments: Any) -> Told:
    """One call of one tool on a server in this process."""

    async def asked() -> Told:
        async with in_process(folder, *allowed) as client:
            return await caller(client)(tool, **arguments)

    return asyncio.run(asked())

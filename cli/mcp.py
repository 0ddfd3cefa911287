"""`autoinfer mcp`: coding agents as colleagues, over the Model Context Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.console.options import Json

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from dashboard.listening import Listening
    from dashboard.web.opening import Opened

LARGEST_PORT = 65_535
DEFAULT_PORT = 8421


def mcp(
    ctx: typer.Context,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="TOOL",
            help="Let this tool write: propose, withdraw, note, steer, lift or add_finding; again for more.",
        ),
    ] = None,
    allow_writes: Annotated[bool, typer.Option("--allow-writes", help="Let all of these write.")] = False,
    http: Annotated[
        bool,
        typer.Option("--http", help="Serve over HTTP, with a token, in place of standard input and output."),
    ] = False,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="ADDRESS", help="The address for --http; 127.0.0.1 if not given."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=LARGEST_PORT,
            help="The port for --http; 8421 if not given, any free one for 0.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Let coding agents read the queue, findings and experiments, and propose where you allow it.

    Without --http it speaks on standard input and output, for a client that starts it, and ends with it.
    """
    from cli.console.opening import settings_of
    from configs.errors import UsageError

    if not http and (host is not None or port is not None or as_json):
        raise UsageError(
            "--host, --port and --json are for --http.", "Write: autoinfer mcp --http, or leave them out."
        )
    try:
        from dashboard.mcp.server import make_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise UsageError(
            "autoinfer mcp needs the Python package mcp, which is not installed.",
            "Install it: pip install 'autoinfer[mcp]'",
        ) from None
    from dashboard.listening import DEFAULT_HOST, listen
    from dashboard.mcp.source import Source
    from dashboard.mcp.write_tools import WRITES
    from dashboard.page import Ground
    from dashboard.web.opening import opened_by

    settings = settings_of(ctx)
    source = Source(settings.database_url)
    try:
        server = make_server(source, Ground(settings), WRITES if allow_writes else allow or ())
        if http:
            opened = opened_by(source.database, settings.dashboard_token_file)
            listening = listen(host or DEFAULT_HOST, DEFAULT_PORT if port is None else port)
            _serve(server, listening, opened, as_json)
        else:
            _speak(server)
    finally:
        source.close()


def _speak(server: MCPServer[Any]) -> None:
    """Speak on standard input and output until the client ends it."""
    import signal
    import sys

    if sys.stdin.isatty():
        print("It waits for a client on standard input; how one starts it: docs/mcp.md", file=sys.stderr)
    # The thread that reads would wait for another line; whatever is being written is whole or not at all.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server.run("stdio")


def _serve(
    server: MCPServer[Any],
    listening: Listening,
    opened: Opened,
    as_json: bool,
) -> None:
    from cli.console.output import print_json, say
    from dashboard.mcp.serving import PATH, http_app
    from dashboard.server import serve

    address = f"{listening.address}{PATH}"

    def told() -> None:
        if as_json:
            print_json({"address": address, "token": opened.token}, line=True)
            return
        made = "" if opened.token is None else f"Its token, made for this run: {opened.token}"
        say(f"The MCP server is at {address}", *([made] if made else opened.told))

    serve(http_app(server, opened.access, loopback=not listening.is_open), listening, told)

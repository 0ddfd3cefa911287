"""Serving over HTTP: a loopback address unless asked otherwise, and always a token.

Whoever connects must name this machine as its host (on a loopback address), come from no other origin, and
send `Authorization: Bearer TOKEN`. On loopback too: tools may write, and other users of a machine can open
its ports. The token stands in no address, where logs and histories would keep it.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from configs.errors import AutoinferError
from dashboard.web.access import Access
from dashboard.web.security import LOOPBACK_NAMES

PATH = "/mcp"

_BEARER = "bearer "


def http_app(server: MCPServer[Any], access: Access, *, loopback: bool) -> ASGIApp:
    """The server as an ASGI app at `PATH`, behind its guard; `loopback` says where it listens."""
    # The guard looks at hosts and origins, of every method and with its own sentences.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        streamable_http_path=PATH, json_response=True, transport_security=unchecked
    )
    return Guard(app, access, loopback)


class Guard:
    """ASGI middleware that answers nobody without a token, nor what another site's page sends."""

    def __init__(self, app: ASGIApp, access: Access, loopback: bool) -> None:
        self._app, self._access, self._loopback = app, access, loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse with a sentence, or pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        status, refusal = 403, refused(headers, self._loopback)
        if refusal is None:
            # Digests may have to be read from a database, for which nobody else waits.
            status, refusal = await run_in_threadpool(self._without_token, headers)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        challenge = {"www-authenticate": "Bearer"} if status == 401 else {}
        await JSONResponse({"error": refusal}, status, challenge)(scope, receive, send)

    def _without_token(self, headers: Headers) -> tuple[int, str | None]:
        given = headers.get("authorization", "")
        try:
            if given.lower().startswith(_BEARER) and self._access.allows(given[len(_BEARER) :].strip()):
                return 200, None
        except AutoinferError as error:
            return 503, f"Who has access can't be told now: {error.message}"
        sent = "The token is not one that holds" if given else "This server asks for a token"
        return 401, (
            f"{sent}: send the header Authorization: Bearer TOKEN, with one that `autoinfer token new NAME` "
            "makes or the one that `autoinfer mcp --http` printed."
        )


def refused(headers: Headers, loopback: bool) -> str | None:
    """Why a request may not be answered, whoever sends it; None where it may."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if loopback and _hostname(f"//{host}") not in LOOPBACK_NAMES:
        return (
            f"This server answers to this machine alone, and not to the name {host[:80]!r}: connect to "
            "http://127.0.0.1, or serve it on another address with: autoinfer mcp --http --host ADDRESS"
        )
    if origin is not None and urlsplit(origin).netloc != host:
        return "This was sent by a page of another site, so it is not answered."
    if headers.get("sec-fetch-site") not in (None, "same-origin", "none"):
        return "This was sent by a page of another site, so it is not answered."
    return None


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None

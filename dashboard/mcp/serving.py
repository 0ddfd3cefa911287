"""Serving over HTTP: a loopback address unless asked otherwise, and always a token.

Whoever connects must name this machine as its host (on a loopback address), come from no other origin, and
send `Authorization: Bearer TOKEN`. On loopback too: tools may write, and other users of a machine can open
its ports. The token stands in no address, where logs and histories would keep it. What is written through
a token that has a name is marked with that name, and a session that was begun with one goes on with it alone.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from configs.errors import AutoinferError
from dashboard.web.access import Access, Holder
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
        status, refusal, holder = 403, refused(headers, self._loopback), None
        if refusal is None:
            # Digests may have to be read from a database, for which nobody else waits.
            status, refusal, holder = await run_in_threadpool(self._holder, headers)
        if refusal is None:
            await self._app(_known(scope, holder), receive, send)
            return
        challenge = {"www-authenticate": "Bearer"} if status == 401 else {}
        await JSONResponse({"error": refusal}, status, challenge)(scope, receive, send)

    def _holder(self, headers: Headers) -> tuple[int, str | None, Holder | None]:
        """The status of the answer, why there is none if so, and whose token was sent."""
        given = headers.get("authorization", "")
        try:
            if given.lower().startswith(_BEARER):
                holder = self._access.holder(given[len(_BEARER) :].strip())
                if holder is not None:
                    return 200, None, holder
        except AutoinferError as error:
            return 503, f"Who has access can't be told now: {error.message}", None
        sent = "The token is not one that holds" if given else "This server asks for a token"
        refusal = (
            f"{sent}: send the header Authorization: Bearer TOKEN, with one that `autoinfer token new NAME` "
            "makes or the one that `autoinfer mcp --http` printed."
        )
        return 401, refusal, None


def _known(scope: Scope, holder: Holder | None) -> Scope:
    """The request with whose token it came, where that has a name, as the SDK looks for it."""
    if holder is None or holder.name is None:
        return scope
    return {**scope, "user": AuthenticatedUser(AccessToken(token="", client_id=holder.name, scopes=[]))}


def token_name(request: object) -> str | None:
    """The name of the token that a request came with; None for none, and where it came otherwise."""
    user = request.scope.get("user") if isinstance(request, Request) else None
    return user.username if isinstance(user, AuthenticatedUser) else None


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

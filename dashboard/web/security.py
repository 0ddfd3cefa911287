"""What a browser may do with these pages, and who may use them.

Everything comes from this server: no inline script or style, no other host, no frame. A server on a loopback
address answers to loopback names alone, so that a page elsewhere can't reach it by a name of its own (DNS
rebinding). On any other address a token is asked for, once in the URL and then in a cookie; of tokens only
digests are held (`dashboard.web.access`). A write must come
from a page of this server: its `Origin` is compared with the host that was asked.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from configs.errors import AutoinferError
from dashboard.web.access import Access

HEADERS = {
    "content-security-policy": (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; object-src 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
"""Headers of every answer."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

TOKEN_COOKIE = "autoinfer-token"
TOKEN_PARAMETER = "token"

ASKED = (
    "This dashboard asks for a token: open the address that `autoinfer dashboard` printed, or add ?token=… "
    "to yours, with the token of its file or one that `autoinfer token new` makes."
)
"""What who has no token is told."""

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names that a server on a loopback address answers to, with any port."""


class Guard:
    """ASGI middleware that adds `HEADERS` and refuses what `Access` does not allow."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope)
        refusal = refused(request.method, request.headers, not self._access.asks)
        if refusal is not None:
            await PlainTextResponse(refusal, 403)(scope, receive, with_headers)
            return
        if self._access.asks:
            # Digests may have to be read from a database, for which nobody else waits.
            answer = await run_in_threadpool(_unless_known, request, self._access)
            if answer is not None:
                await answer(scope, receive, with_headers)
                return
        await self._app(scope, receive, with_headers)


def refused(method: str, headers: Headers, loopback_only: bool) -> str | None:
    """Why a request may not be answered, as a sentence with what to do; None where it may."""
    host = headers.get("host", "")
    if loopback_only and _hostname(f"//{host}") not in LOOPBACK_NAMES:
        return (
            f"This dashboard answers to this machine alone, and not to the name {host[:80]!r}: open it as "
            "http://127.0.0.1, or serve it on another address with: autoinfer dashboard --host ADDRESS"
        )
    if method in SAFE_METHODS:
        return None
    origin = headers.get("origin")
    site = headers.get("sec-fetch-site")
    if origin is None and site in (None, "same-origin", "none"):
        return None  # no browser says so: a command such as curl, which no foreign page can make run
    if origin is not None and urlsplit(origin).netloc == host and site in (None, "same-origin"):
        return None
    return "This was sent by a page of another site, so nothing was changed: act on the dashboard's own page."


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _unless_known(request: Request, access: Access) -> Response | None:
    """What who has no token is answered, or from the address with the token to the same one without it, so
    that it stays out of the history; None for who has one."""
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    given = request.query_params.get(TOKEN_PARAMETER, "")
    try:
        if any(each and access.allows(each) for each in (request.cookies.get(TOKEN_COOKIE, ""), bearer)):
            return None
        if not given or not access.allows(given):
            return PlainTextResponse(ASKED, 401)
    except AutoinferError as error:
        return PlainTextResponse(f"Who has access can't be told now: {error.message}", 503)
    address = request.url.remove_query_params(TOKEN_PARAMETER)
    answer = RedirectResponse(f"{address.path}{'?' * bool(address.query)}{address.query}", 303)
    answer.set_cookie(TOKEN_COOKIE, given, httponly=True, samesite="strict")
    return answer

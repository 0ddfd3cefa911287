"""From pages to routes: HTML, `.json`, `.csv` and the stream, all by the page's one reading function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Header, Path, Query, Response
from fastapi import Request as HttpRequest
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse

from configs.moments import offsets_until
from dashboard.page import MOMENT_S, Filters, Ground, Page, Request, as_csv
from dashboard.rendering.environment import render
from dashboard.rendering.linking import labels_linked, without_links
from dashboard.shell import Shell, shell_of
from dashboard.stream.hub import Hub, Push, Topic
from dashboard.stream.ticks import Ticks, this_second
from dashboard.stream.wire import pushes
from dashboard.web.answers import CsvResponse
from dashboard.web.kept import keep
from db import events
from db.session import Database
from knowledge.queries.lookup import labels_there
from knowledge.queries.view import View

AnyPage = Page[Any, Any]

LABEL_LENGTH = 40
"""Most characters of a parameter in a path."""


class Server:
    """What routes share: the database, the hub and the ground that pages read on."""

    def __init__(self, database: Database, hub: Hub, ground: Ground) -> None:
        self.database = database
        self.hub = hub
        self.ground = ground
        self.ticks = Ticks(lambda: ground.devices.interval_s)

    def view(self, page: AnyPage, request: Request[Any]) -> tuple[View, int]:
        """A page's view and the id that a stream goes on from, of one snapshot."""
        with self.database.read() as session:
            last_id = this_second() if page.ticks else events.last_id(session)
            return page.read(session, request, self.ground), last_id

    def whole(self, page: AnyPage, request: Request[Any], address: str) -> tuple[View, int, Shell]:
        """The same with the bar around it."""
        with self.database.read() as session:
            last_id = this_second() if page.ticks else events.last_id(session)
            view = page.read(session, request, self.ground)
            return view, last_id, shell_of(session, page, request, address)

    def linked(self, html: str) -> str:
        """A page or a part of one, in which no label is a link that would lead to nothing."""
        if not (named := labels_linked(html)):
            return html
        with self.database.read() as session:
            return without_links(html, named - labels_there(session, named))


def add_page(app: FastAPI, server: Server, page: AnyPage) -> None:
    """Add a page, its twins and its stream to the app."""
    router = APIRouter(tags=[page.tag])

    def html(http: HttpRequest, request: Request[Any]) -> Response:
        keep(http, page.lasts_s)
        address = http.url.path
        view, last_id, shell = server.whole(page, request, address)
        if shell.in_flight:  # a lease that runs out changes the page, and writes nothing
            keep(http, min(page.lasts_s, MOMENT_S))
        query = _query(request.filters)
        context = {
            "page": page,
            "view": view,
            "request": request,
            "shell": shell,
            "links": shell.links,
            "last_id": last_id,
            "offsets": offsets_until(datetime.now(UTC)),
            "command": page.command(request),
            "address": address,
            "query": query,
            "stream": f"{_twin(address, 'stream')}{query}",
            "twins": [
                f"{_twin(address, kind)}{query}" for kind in ("json", *(["csv"] if page.table else []))
            ],
        }
        return HTMLResponse(server.linked(render(page.template, context)))

    def as_json(http: HttpRequest, request: Request[Any]) -> Response:
        keep(http, page.lasts_s)
        view, _ = server.view(page, request)
        return JSONResponse(view.model_dump(mode="json"))

    def as_table(http: HttpRequest, request: Request[Any]) -> Response:
        keep(http, page.lasts_s)
        view, _ = server.view(page, request)
        assert page.table is not None
        return CsvResponse(as_csv(page.table(view)))

    async def stream(http: HttpRequest, request: Request[Any], known_id: int) -> Response:
        def rendered() -> Push:
            view, last_id = server.view(page, request)
            return Push(last_id, server.linked(page.live(view, request)))

        topic = Topic(f"{http.url.path}{_query(request.filters)}", rendered, page.changes_with)
        return StreamingResponse(
            pushes(server.ticks if page.ticks else server.hub, topic, known_id),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    router.add_api_route(
        _twin(page.path, "json"),
        _endpoint(page, as_json),
        response_model=page.shows,
        name=f"{page.name}.json",
    )
    if page.table is not None:
        router.add_api_route(
            _twin(page.path, "csv"),
            _endpoint(page, as_table),
            response_class=CsvResponse,
            name=f"{page.name}.csv",
        )
    router.add_api_route(
        _twin(page.path, "stream"),
        _stream_endpoint(page, stream),
        name=f"{page.name}.stream",
        include_in_schema=False,
    )
    # Last, for a label in its path would take a twin's address for one: `/hypotheses/H-021.json`.
    router.add_api_route(page.path, _endpoint(page, html), response_class=HTMLResponse, name=page.name)
    app.include_router(router)


def _twin(path: str, kind: str) -> str:
    return f"{'/now' if path == '/' else path}.{kind}"


def _query(filters: Filters) -> str:
    given = filters.model_dump(mode="json", exclude_defaults=True)
    return f"?{urlencode(given, doseq=True)}" if given else ""


def _endpoint(
    page: AnyPage, answer: Callable[[HttpRequest, Request[Any]], Response]
) -> Callable[..., Response]:
    """A function with the signature that FastAPI reads: the path's parameters and the page's filters."""

    def endpoint(**given: Any) -> Response:
        http, filters = given.pop("http"), given.pop("filters")
        return answer(http, Request(given, filters))

    endpoint.__signature__ = inspect.Signature(_parameters(page))  # type: ignore[attr-defined]
    endpoint.__doc__ = f"{page.title}."
    return endpoint


def _stream_endpoint(page: AnyPage, answer: Callable[..., Any]) -> Callable[..., Any]:
    async def endpoint(**given: Any) -> Response:
        http, filters, since = given.pop("http"), given.pop("filters"), given.pop("last_event_id")
        known = http.query_params.get("known", "")
        known_id = _number(since) if since else _number(known)
        found: Response = await answer(http, Request(given, filters), known_id)
        return found

    header = inspect.Parameter(
        "last_event_id",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, Header()],
    )
    endpoint.__signature__ = inspect.Signature([*_parameters(page), header])  # type: ignore[attr-defined]
    return endpoint


def _parameters(page: AnyPage) -> list[inspect.Parameter]:
    kind = inspect.Parameter.KEYWORD_ONLY
    label = Annotated[str, Path(max_length=LABEL_LENGTH)]
    types: Mapping[str, Any] = {
        "http": HttpRequest,
        **dict.fromkeys(re.findall(r"{(\w+)}", page.path), label),
        "filters": Annotated[page.filters, Query()],
    }
    return [inspect.Parameter(name, kind, annotation=annotation) for name, annotation in types.items()]


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0

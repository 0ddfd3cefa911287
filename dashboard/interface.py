"""What other programs ask of this server: its interface described, its figures, whether it is well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from dashboard.rendering.environment import render
from dashboard.routes import Server
from dashboard.shell import links
from dashboard.web.metrics import MEDIA_TYPE, prometheus
from dashboard.web.timing import Timings
from db import events
from knowledge.queries.vitals import vitals


@dataclass(frozen=True)
class Parameter:
    """What an operation takes: in the path or in the query."""

    name: str
    where: str
    type: str
    default: str
    about: str


@dataclass(frozen=True)
class Operation:
    """A method on a path, with what it takes and what it gives."""

    method: str
    path: str
    about: str
    tag: str
    gives: tuple[str, ...]
    parameters: tuple[Parameter, ...]

    @property
    def can_be_opened(self) -> bool:
        """Whether its path alone is an address."""
        return self.method == "GET" and "{" not in self.path


def add_interface(app: FastAPI, server: Server, timings: Timings) -> None:
    """Add `/docs`, `/metrics` and `/healthz`."""

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    def docs() -> Response:
        found = list(operations(app.openapi()))
        context = {"operations": found, "links": links(), "tags": sorted({each.tag for each in found})}
        return HTMLResponse(render("docs/page.html", context))

    @app.get("/metrics", tags=["service"], response_class=PlainTextResponse)
    def metrics() -> Response:
        """Figures for Prometheus."""
        with server.database.read() as session:
            found = vitals(session)
        devices = server.ground.devices.fresh(datetime.now(UTC))
        return Response(prometheus(found, server.hub.viewers, timings, devices), media_type=MEDIA_TYPE)

    @app.get("/healthz", tags=["service"])
    def healthz() -> Response:
        """Whether the database can be read."""
        with server.database.read() as session:
            return JSONResponse({"status": "ok", "last_event_id": events.last_id(session)})


def operations(schema: Mapping[str, Any]) -> Iterator[Operation]:
    """The operations of an OpenAPI document, in its order."""
    for path, methods in schema["paths"].items():
        for method, told in methods.items():
            answers = told["responses"].get("200", {}).get("content", {})
            yield Operation(
                method=method.upper(),
                path=path,
                about=told.get("description") or told["summary"],
                tag=next(iter(told.get("tags", [])), "other"),
                gives=tuple(answers),
                parameters=(*map(_parameter, told.get("parameters", [])), *_fields(told)),
            )


def _fields(told: Mapping[str, Any]) -> Iterator[Parameter]:
    """The fields of the form that an operation takes."""
    for each in told.get("requestBody", {}).get("content", {}).values():
        for name, schema in each["schema"]["properties"].items():
            where = "required" if name in each["schema"]["required"] else "form"
            yield Parameter(name, where, _type(schema), "", schema["description"])


def _parameter(told: Mapping[str, Any]) -> Parameter:
    schema = told.get("schema", {})
    default = schema.get("default")
    return Parameter(
        name=told["name"],
        where="required" if told.get("required") else told["in"],
        type=_type(schema),
        default="" if default is None else str(default),
        about=told.get("description") or schema.get("description") or "",
    )


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(_type(each) for each in schema["anyOf"] if each.get("type") != "null")
    if schema.get("type") == "array":
        return f"{_type(schema.get('items', {}))}, may be given again"
    return str(schema.get("type", "any"))

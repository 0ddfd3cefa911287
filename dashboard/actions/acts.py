"""Acts of a page: their routes, and what is answered where one is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from configs.errors import AutoinferError, UsageError
from dashboard.actions.forms import REFUSED, TOLD
from dashboard.rendering.environment import render
from dashboard.shell import links

Endpoint = Callable[..., object]


def add_acts(
    app: FastAPI, page: str, endpoints: Mapping[str, Endpoint], takes: Mapping[str, dict[str, object]]
) -> None:
    """Add a route for each act of the page at `/page`, by name; `takes` describes the form of each."""
    router = APIRouter(tags=["acts"])
    for name, endpoint in endpoints.items():
        router.add_api_route(
            f"/{page}/{name}",
            endpoint,
            methods=["POST"],
            name=f"{page.partition('/')[0]}.{name}",
            response_class=HTMLResponse,
            responses=TOLD,
            openapi_extra=takes[name],
        )
    app.include_router(router)


def refused(request: Request, error: AutoinferError, back: str) -> Response:
    """Why an act was not done: a sentence for a page that stays, else a page that leads back to `back`."""
    status = REFUSED if isinstance(error, UsageError) else 503
    if request.headers.get("hx-request"):
        return HTMLResponse(render("queue/_said.html", {"said": error, "failed": True}), status)
    context = {"message": error.message, "hint": error.hint, "links": links(), "status": status, "back": back}
    return HTMLResponse(render("queue/refused.html", context), status)

"""The app: pages on one database, static files, the stream's reader, and the guard around all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from configs.errors import AutoinferError, UsageError
from configs.settings import Settings
from dashboard.actions.costs import add_costs_acts
from dashboard.actions.enqueue import add_enqueue_acts
from dashboard.actions.findings import add_findings_acts
from dashboard.actions.promote import add_promote_act
from dashboard.actions.queue import add_queue_acts
from dashboard.devices import Devices
from dashboard.graph_data import add_graph_data
from dashboard.interface import add_interface
from dashboard.page import Ground
from dashboard.pages import (
    ask,
    campaign,
    campaigns,
    compare,
    costs,
    enqueue,
    experiment,
    experiment_log,
    experiment_samples,
    experiments,
    find,
    finding,
    gpus,
    hypotheses,
    hypothesis,
    knowledge,
    language_model,
    log,
    now,
    pareto,
    predictions,
    queue,
    settings,
    tiles,
    what_if,
)
from dashboard.rendering.environment import STATIC, render
from dashboard.report.routes import add_report
from dashboard.routes import Server, add_page
from dashboard.shell import links
from dashboard.stream.hub import Hub
from dashboard.web.access import Access
from dashboard.web.answers import PROBLEMS, Problem
from dashboard.web.kept import Kept
from dashboard.web.security import HEADERS, Guard
from dashboard.web.timing import Timed, Timings
from db.session import Database, open_database
from experiments.remote.ending import Make

PAGES = (
    now.PAGE,
    gpus.PAGE,
    tiles.PAGE,
    queue.PAGE,
    what_if.PAGE,
    enqueue.PAGE,
    pareto.PAGE,
    experiments.PAGE,
    experiment.PAGE,
    experiment_log.PAGE,
    experiment_samples.PAGE,
    compare.PAGE,
    hypotheses.PAGE,
    hypothesis.PAGE,
    predictions.PAGE,
    language_model.PAGE,
    campaigns.PAGE,
    campaign.PAGE,
    costs.PAGE,
    settings.PAGE,
    log.PAGE,
    find.PAGE,
    knowledge.PAGE,
    ask.PAGE,
    finding.PAGE,
)

LEAST_GZIPPED_BYTES = 600
"""Answers below go as they are: they fit a packet all the same."""

GZIP_LEVEL = 5
"""Of zlib; 9 took twice as long for 3 % fewer bytes of a log page."""


class Assets(StaticFiles):
    """Static files: one with its content in the address never changes there."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """As the base has it, with how long a browser may keep the file."""
        answer = await super().get_response(path, scope)
        versioned = scope.get("query_string", b"").startswith(b"v=")
        answer.headers["cache-control"] = "max-age=31536000, immutable" if versioned else "no-cache"
        return answer


def create_app(
    settings: Settings,
    database: Database | None = None,
    access: Access | None = None,
    devices: Devices | None = None,
    executor: Make | None = None,
) -> FastAPI:
    """The dashboard of the settings' database; raises as `open_database` does.

    A `database` that is given stays open when the app ends. `access` None serves loopback alone;
    `devices` None watches this machine; `executor` as in `Ground`.
    """
    opened = open_database(settings.database_url) if database is None else database
    hub, timings = Hub(opened), Timings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(each) for each in (hub.run(), server.ticks.run(), ground.devices.run(opened))
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task
            if database is None:
                opened.close()

    app = FastAPI(title="autoinfer", docs_url=None, redoc_url=None, lifespan=lifespan, responses=PROBLEMS)
    app.state.timings = timings
    ground = Ground(settings, devices or Devices(data_dir=settings.data_dir), executor)
    server = Server(opened, hub, ground)
    experiment_samples.add_experiment_routes(app, server)
    add_graph_data(app, server)
    add_report(app, server)
    for page in PAGES:
        add_page(app, server, page)

    add_enqueue_acts(app, server)
    add_queue_acts(app, server)
    add_costs_acts(app, server)
    add_promote_act(app, server)
    add_findings_acts(app, server)
    add_interface(app, server, timings)
    app.mount("/static", Assets(directory=STATIC))
    app.add_middleware(GZipMiddleware, minimum_size=LEAST_GZIPPED_BYTES, compresslevel=GZIP_LEVEL)
    app.add_middleware(Kept, database=opened)
    app.add_middleware(Timed, timings=timings)
    app.add_middleware(Guard, access=access or Access())
    app.add_exception_handler(AutoinferError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _missing)
    app.add_exception_handler(Exception, _failed)
    return app


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, AutoinferError)
    return _problem(request, 404 if isinstance(error, UsageError) else 503, error.message, error.hint)


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    return _problem(request, 422, f"{where}: {first['msg']}.", "Change it in the address, or leave it out.")


def _missing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = "There is no such page." if error.status_code == 404 else f"{error.detail}."
    return _problem(request, error.status_code, message, "The pages are listed above.")


def _failed(request: Request, error: Exception) -> Response:
    """A mistake of autoinfer's own, whose traceback goes to the terminal of the server. What answers stands
    outside the guard, so its headers are put on here."""
    hint = (
        "Nothing was lost. The traceback stands in the terminal of the dashboard; please report it with the "
        "address of this page. The command line tells the same: autoinfer --help"
    )
    name = type(error).__name__
    answer = _problem(request, 500, f"autoinfer made a mistake ({name}) and has no answer here.", hint)
    answer.headers.update(HEADERS)
    return answer


def _problem(request: Request, status: int, message: str, hint: str) -> Response:
    """The error in words: a page for a browser, JSON for whoever asked for a twin."""
    if request.url.path.endswith((".json", ".csv", ".stream")):
        return JSONResponse(Problem(error=message, hint=hint).model_dump(), status)
    context = {"message": message, "hint": hint, "links": links(), "status": status}
    return HTMLResponse(render("problem.html", context), status)

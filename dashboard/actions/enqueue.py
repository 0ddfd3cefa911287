"""Putting a person's own hypothesis into the queue: the act of `autoinfer enqueue`."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from agent.campaign.queue.enqueue import enqueue
from configs.errors import AutoinferError, UsageError
from dashboard.actions.forms import REFUSED, TOLD, Form, read_form, takes
from dashboard.rendering.environment import render
from dashboard.routes import Server
from dashboard.shell import links
from db.labels import Noun, format_label
from db.session import Database
from knowledge.queries.lookup import campaign_of

FIELDS = {
    "campaign": "Its label; the newest if not given.",
    "claim": "What is claimed, in a sentence.",
    "set": "KNOB=VALUE, and may be given again.",
    "expect": "The effect that is expected, such as tpot=-10%±4%.",
    "min_effect": "The smallest effect that is worth having, such as 3%.",
    "why": "Why it is expected.",
    "pin": "Anything, to test it before all others.",
}
"""The form."""


def put(database: Database, form: Form) -> str:
    """Enqueue what a form says and return its label; raises `UsageError` as `enqueue`."""
    with database.read() as session:
        campaign_id = campaign_of(session, form.text("campaign"))
    number = enqueue(
        database,
        campaign_id,
        claim=form.text("claim") or "",
        assignments=form.texts("set"),
        expect=form.text("expect"),
        min_effect=form.text("min_effect"),
        why=form.text("why"),
        pin=form.text("pin") is not None,
    )
    return format_label(Noun.HYPOTHESIS, number)


def add_enqueue_acts(app: FastAPI, server: Server) -> None:
    """Add the act's route to the app."""
    router = APIRouter(tags=["acts"])

    @router.post(
        "/enqueue",
        name="enqueue.put",
        status_code=303,
        response_class=RedirectResponse,
        responses={status: TOLD[status] for status in (303, REFUSED)},
        openapi_extra=takes(FIELDS, ["claim", "set"]),
    )
    async def act(request: Request) -> Response:
        """Put a hypothesis into the queue."""
        form = None
        try:
            form = await read_form(request)
            label = await run_in_threadpool(put, server.database, form)
        except AutoinferError as error:
            return await run_in_threadpool(_refused, server, form, error)
        campaign = form.text("campaign")
        query = f"?{urlencode({'campaign': campaign})}" if campaign else ""
        return RedirectResponse(f"/queue{query}#{label}", 303)

    app.include_router(router)


def _refused(server: Server, form: Form | None, error: AutoinferError) -> Response:
    """Why not, with the way back to the form as it was filled in."""
    status = REFUSED if isinstance(error, UsageError) else 503
    filled = "" if form is None else f"?{urlencode(form.pairs)}"
    context = {
        "message": error.message,
        "hint": error.hint,
        "links": links(),
        "status": status,
        "back": f"/enqueue{filled}",
    }
    return HTMLResponse(server.linked(render("enqueue/refused.html", context)), status)

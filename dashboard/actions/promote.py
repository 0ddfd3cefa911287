"""Confirming an experiment on another target: the act of `autoinfer promote`, for targets with a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import FastAPI, Path, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from agent.campaign.rerun.promote import ask, promotable, promote, quote_words
from agent.campaign.resources.waiting import served_devices
from configs.errors import AutoinferError, UsageError
from dashboard.actions.acts import add_acts, refused
from dashboard.actions.forms import Form, read_form, takes
from dashboard.rendering.environment import render
from dashboard.routes import LABEL_LENGTH, Server
from db.labels import Noun, format_label
from db.session import Database
from knowledge.queries.lookup import labelled

TAKES = takes({"target": "A target that a worker takes jobs for now."}, ["target"])


def do(database: Database, label: str, form: Form) -> str:
    """Queue the test for the target; raises `UsageError` for what can't be done, saying why.

    A rented target's job waits until its price is approved: a worker of the target asks for it first.
    """
    target = form.required("target")
    with database.read() as session:
        experiment_id = promotable(session, Noun.EXPERIMENT, labelled(session, Noun.EXPERIMENT, label))
        if target not in served_devices(session):
            raise UsageError(
                f"No worker takes jobs for {target[:40]} now.",
                f"Confirm it with: autoinfer promote {label} --target {target[:40]}",
            )
        asked = ask(session, experiment_id, target)
    if asked.unfinished is not None:
        waits = format_label(Noun.EXPERIMENT, asked.unfinished)
        raise UsageError(f"{waits} is to confirm it on {target} already.", f"See it: autoinfer show {waits}")
    with database.write() as session:
        made = promote(session, asked, None, agreed=not asked.there.rented)
    if asked.there.rented:
        return f"{made.label} waits for a price, and then for your approval: autoinfer approve {made.job}"
    return f"{made.label} waits for its turn on {target}: {quote_words(asked, None)}."


def add_promote_act(app: FastAPI, server: Server) -> None:
    """Add the act's route to the app."""
    add_acts(app, "experiments/{label}", {"promote": _endpoint(server)}, {"promote": TAKES})


def _endpoint(server: Server) -> Callable[..., object]:
    async def act(label: Annotated[str, Path(max_length=LABEL_LENGTH)], request: Request) -> Response:
        """Confirm an experiment on another target."""
        said: str | AutoinferError
        try:
            said = await run_in_threadpool(do, server.database, label, await read_form(request))
        except AutoinferError as error:
            said = error
        return _answer(request, label, said)

    return act


def _answer(request: Request, label: str, said: str | AutoinferError) -> Response:
    """A sentence for a page that stays, else the way back to the page or a page that says why not."""
    back = f"/experiments/{label}" if label.replace("-", "").isalnum() else "/experiments"
    if isinstance(said, AutoinferError):
        return refused(request, said, back)
    if request.headers.get("hx-request"):
        return HTMLResponse(render("queue/_said.html", {"said": said, "failed": False}))
    return RedirectResponse(f"{back}#h-else", 303)

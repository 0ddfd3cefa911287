"""A person's own findings: the acts of `autoinfer finding add` and `withdraw`."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from configs.errors import AutoinferError
from dashboard.actions.acts import add_acts, refused
from dashboard.actions.forms import Form, read_form, takes
from dashboard.routes import Server
from db.labels import Noun, format_label
from db.models import Finding
from knowledge.findings.told import Telling, parse_saying, take_back, tell
from knowledge.queries.lookup import labelled, newest_campaign

PAGE = "/knowledge"


def write_down(session: Session, form: Form) -> Finding:
    """Write down a finding, for the newest campaign's model, target and engine where they are not given."""
    campaign = form.text("campaign")
    telling = Telling(
        form.text("claim") or "",
        _lines(form, "set"),
        parse_saying(form.text("says") or "helps"),
        form.text("effect"),
        form.text("model"),
        form.text("target"),
        form.text("engine"),
        _lines(form, "version"),
    )
    number = newest_campaign(session) if campaign is None else labelled(session, Noun.CAMPAIGN, campaign)
    return tell(session, telling, number)


def withdraw(session: Session, form: Form) -> Finding:
    """Take a finding back that was written down."""
    number = labelled(session, Noun.FINDING, form.required("finding"))
    return take_back(session, number, form.text("why"))


def _lines(form: Form, name: str) -> tuple[str, ...]:
    """What the fields of this name say, one thing a line."""
    return tuple(line.strip() for text in form.texts(name) for line in text.splitlines() if line.strip())


ACTS: dict[str, Callable[[Session, Form], Finding]] = {"tell": write_down, "take_back": withdraw}
"""Each act by the last part of its address."""

TAKES = {
    "tell": takes(
        {
            "claim": "What is so, in a sentence.",
            "set": "KNOB=VALUE, one a line: the change that it is about.",
            "says": "helps, does-not-help, breaks-quality or does-not-run.",
            "effect": "The effect that was seen, such as tpot=-5%±2%; only of what helps.",
            "model": "The model; the campaign's if not given.",
            "target": "The hardware; the campaign's if not given.",
            "engine": "The engine; the campaign's if not given.",
            "version": "PACKAGE=VERSION, one a line.",
            "campaign": "Its label; the newest if not given.",
        },
        ["claim"],
    ),
    "take_back": takes({"finding": "Its label.", "why": "The reason, kept with it."}, ["finding"]),
}
"""The form of each act."""


def add_findings_acts(app: FastAPI, server: Server) -> None:
    """Add the acts' routes to the app."""
    add_acts(app, PAGE.removeprefix("/"), {name: _endpoint(server, name) for name in ACTS}, TAKES)


def _endpoint(server: Server, name: str) -> Callable[..., object]:
    def do(form: Form) -> str:
        with server.database.write() as session:
            return format_label(Noun.FINDING, ACTS[name](session, form).id)

    async def act(request: Request) -> Response:
        try:
            label = await run_in_threadpool(do, await read_form(request))
        except AutoinferError as error:
            return refused(request, error, PAGE)
        there = f"{PAGE}/{label}"
        if request.headers.get("hx-request"):
            return Response(headers={"hx-redirect": there})
        return RedirectResponse(there, 303)

    act.__doc__ = ACTS[name].__doc__
    return act

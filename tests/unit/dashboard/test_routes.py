"""What all routes have in common: twins of pages with a label in their path, fields of forms left empty."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from dashboard.page import Filters, Ground, Page, Request
from dashboard.routes import AnyPage, Server, add_page
from knowledge.queries.view import View


class Some(Filters):
    kind: str | None = None
    state: tuple[str, ...] = ()
    limit: int = 50


class Shown(View):
    label: str


def read(session: Session, request: Request[Some], ground: Ground) -> Shown:
    return Shown(label=request.path["label"])


PAGE = Page("log", "One", "/things/{label}", Some, Shown, read, lambda request: "autoinfer")


class Without(Server):
    """A server that reads without a database."""

    def __init__(self) -> None:
        pass

    def view(self, page: AnyPage, request: Request[Any]) -> tuple[View, int]:
        return read(None, request, None), 0  # type: ignore[arg-type]


def test_a_twin_is_found_before_a_label_that_looks_like_one() -> None:
    app = FastAPI()
    add_page(app, Without(), PAGE)
    assert TestClient(app).get("/things/H-021.json").json() == {"label": "H-021"}


def test_a_field_that_was_left_empty_is_as_if_it_were_not_there() -> None:
    assert Some.model_validate({"kind": "", "state": [""], "limit": ""}) == Some()
    assert Some.model_validate({"state": ["queued"]}).state == ("queued",)

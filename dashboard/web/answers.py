"""What every address may answer besides what it is asked for, for the interface's description."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from pydantic import BaseModel

HTML = {"text/html": {"schema": {"type": "string"}}}
TEXT = {"text/plain": {"schema": {"type": "string"}}}
CSV = {"text/csv": {"schema": {"type": "string"}}}


class Problem(BaseModel):
    """Why there is no answer: one sentence, and what to do."""

    error: str
    hint: str


class CsvResponse(Response):
    """Rows as RFC 4180 has them."""

    media_type = "text/csv"


def _told(description: str) -> dict[str, Any]:
    json = {"application/json": {"schema": Problem.model_json_schema()}}
    return {"description": description, "content": {**json, **HTML}}


PROBLEMS: dict[int | str, dict[str, Any]] = {
    401: {"description": "The token of this server is missing.", "content": TEXT},
    403: {"description": "It was asked by a name of elsewhere, or by a page of elsewhere.", "content": TEXT},
    404: _told("There is no such thing: JSON from `.json` and `.csv`, else a page that says so."),
    422: _told("A parameter makes no sense: JSON from `.json` and `.csv`, else a page that says so."),
    500: _told("A mistake of autoinfer's own; its traceback is in the terminal of the server."),
    503: _told("The database can't be read or written now."),
}
"""Refusals of every address."""

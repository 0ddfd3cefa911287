"""A form's fields, as a browser sends them: urlencoded and bounded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request

from configs.errors import UsageError
from configs.quantities import LONGEST_S
from dashboard.web.answers import HTML

MOST_BYTES = 16 * 1024
"""The largest form that is read."""

MOST_FIELDS = 200

CONTENT_TYPE = "application/x-www-form-urlencoded"

REFUSED = 409
"""Status of an act that was understood and not done."""

TOLD: dict[int | str, dict[str, Any]] = {
    200: {"description": "What was done, in a sentence for htmx.", "content": HTML},
    303: {"description": "It was done: the way back to the page."},
    REFUSED: {"description": "It was not done, and why not in a sentence.", "content": HTML},
}
"""What an act answers."""


def takes(fields: Mapping[str, str], required: Sequence[str] = ()) -> dict[str, Any]:
    """The form of an act for the interface's description: what each field says; those that must be there."""
    schema = {
        "type": "object",
        "properties": {name: {"type": "string", "description": said} for name, said in fields.items()},
        "required": list(required),
    }
    return {"requestBody": {"required": True, "content": {CONTENT_TYPE: {"schema": schema}}}}


class Form:
    """The fields of a form, in order; what is not there is empty."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = [(name, value) for name, value in pairs if value.strip()]
        self._fields = dict(self.pairs)

    def texts(self, name: str) -> tuple[str, ...]:
        """What every field of this name says, without those that say nothing."""
        return tuple(value.strip() for each, value in self.pairs if each == name)

    def text(self, name: str) -> str | None:
        """What a field says without spaces around it; None where it says nothing."""
        return self._fields.get(name, "").strip() or None

    def required(self, name: str) -> str:
        """The same; raises `UsageError` where it says nothing."""
        found = self.text(name)
        if found is None:
            raise UsageError(f"The form says nothing of {name}.", "Send it from the page again.")
        return found

    def place(self, name: str) -> int:
        """A field as a place, 1 the first; raises `UsageError` for anything else."""
        text = self.required(name)
        if not (text.isascii() and text.isdigit() and len(text) < 8):
            raise UsageError(f"{text[:40]!r} is no place in the queue.", "Write a number from 1 on.")
        return int(text)

    def seconds(self, name: str) -> float | None:
        """A field as seconds, None where it says nothing; raises `UsageError` for what is no such number."""
        text = self.text(name)
        if text is None:
            return None
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not 0 < found <= LONGEST_S:
            raise UsageError(f"{text[:40]!r} are no seconds.", "Write a number above 0, such as 90.")
        return found


async def read_form(request: Request) -> Form:
    """Read the body of a request; raises `UsageError` for what is no form, or too large."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != CONTENT_TYPE:
        raise UsageError("Only a form can be sent here.", f"Send it as {CONTENT_TYPE}.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise UsageError(f"The form is larger than {MOST_BYTES:,} bytes.", "Write less.")
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise UsageError("The form can't be read.", "Send it from the page again.") from None
    return Form(fields)

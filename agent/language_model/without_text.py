"""What came in the place of an answer's text, as a sentence with what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.language_model.quoting import masked, plain

NO_TEXT = "The endpoint's answer holds no text"

FILTERED = "content_filter"
"""Why an answer ended that the endpoint kept back."""

LIMIT = "length"
"""Why an answer ended that used all its tokens."""


def why_no_text(told: object, answer_tokens: int, key: str) -> str:
    """Return why an answer with status 200 holds no text, by what it says of itself, without the key."""
    choices = told.get("choices") if isinstance(told, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, Mapping):
        said = _error_of(told)
        return f"{NO_TEXT}." if said is None else f"{NO_TEXT}, but an error: {_quoted(said, key)}."
    message: Any = first.get("message")
    ended = first.get("finish_reason")
    if isinstance(message, Mapping):
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal.strip():
            return f"The model refused to answer: {_quoted(refusal, key)}."
        if message.get("tool_calls") or message.get("function_call"):
            return "The model called a tool, and it was given none."
    if ended == FILTERED:
        return f"The endpoint kept the answer back ({FILTERED})."
    if ended == LIMIT:
        return (
            f"The model used all its {answer_tokens} tokens before it answered, as one that thinks aloud "
            "may. Raise language_model.answer_tokens, or let the server serve it without thinking."
        )
    return f"{NO_TEXT}."


def _error_of(told: object) -> str | None:
    """What an answer calls an error, in its words."""
    error = told.get("error") if isinstance(told, Mapping) else None
    message = error.get("message") if isinstance(error, Mapping) else error
    return message if isinstance(message, str) and message.strip() else None


def _quoted(text: str, key: str) -> str:
    return plain(masked(text, (key,))).rstrip(".")

"""Reads a record of a data set: its running text, or its conversation. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.corpora.calibration.source import CalibrationText
from experiments.corpora.instructions import ChatMessage

TEXT_FIELD = "text"
MESSAGES_FIELD = "messages"
PROMPT_FIELDS = ("prompt", "question", "instruction")
ANSWER_FIELDS = ("answer", "completion", "response", "output")
"""Names under which public data sets keep questions and answers; the first that a record has counts."""

WANTED = "text, messages, or prompt and answer"
"""The fields as an error names them."""


def looks_like_a_record(fields: object) -> bool:
    """Tell whether a JSON value has one of the fields that are read."""
    names = (TEXT_FIELD, MESSAGES_FIELD, *PROMPT_FIELDS)
    return isinstance(fields, Mapping) and any(name in fields for name in names)


def record_text(fields: Mapping[str, object]) -> CalibrationText | None:
    """The text of a record; None for one that holds only white space.

    Raises:
        ValueError: it has none of the fields, or what is in them is not text; the message completes a
            sentence that begins with the place of the record.
    """
    if MESSAGES_FIELD in fields:
        return _conversation(fields[MESSAGES_FIELD])
    prompt = next((name for name in PROMPT_FIELDS if name in fields), None)
    answer = next((name for name in ANSWER_FIELDS if name in fields), None)
    if prompt is not None and answer is not None:
        question, reply = _text(fields[prompt], prompt), _text(fields[answer], answer)
        return (
            ChatMessage(role="user", content=question),
            ChatMessage(role="assistant", content=reply),
        )
    if TEXT_FIELD in fields:
        text = _text(fields[TEXT_FIELD], TEXT_FIELD)
        return text if text.strip() else None
    if prompt is not None:
        raise ValueError(f"has {prompt} but no answer to it ({', '.join(ANSWER_FIELDS)})")
    named = ", ".join(sorted(map(str, fields))) or "nothing"
    raise ValueError(f"holds {named} where {WANTED} is wanted")


def _conversation(messages: object) -> CalibrationText:
    if not isinstance(messages, list) or not messages:
        raise ValueError("has messages that are no list with entries")
    found = []
    for number, message in enumerate(messages, 1):
        if not isinstance(message, Mapping) or not {"role", "content"} <= message.keys():
            raise ValueError(f"has a message, number {number}, without role and content")
        role = _text(message["role"], f"the role of message {number}")
        content = _text(message["content"], f"the content of message {number}")
        found.append(ChatMessage(role=role, content=content))
    return tuple(found)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        found = "nothing" if value is None else f"a {type(value).__name__}"
        raise ValueError(f"has {found} in {name} where text is wanted")
    if "\0" in value:
        raise ValueError(f"has a NUL character in {name}, which no text has")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"has half of a surrogate pair in {name}, which no text has") from None
    return value

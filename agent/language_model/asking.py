"""Asking an endpoint that speaks OpenAI's chat completions: one question, a few attempts, one reply.

What may pass by itself (429, 408, 5xx, a lost connection) is tried again after 1, 2 and 4 seconds, or as long
as the server asks for, all within the deadline. What it does not serve is left out: the bounds in the schema
of the answer, then the schema as its form, then any form at all (the answer is then looked for in its text),
the temperature, the seed, or `max_tokens` for `max_completion_tokens`. Anything else is a failure, and the
reply says which: a question that is longer than the model's context is one at once, since it is no shorter
without an option.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.language_model.exchange import Answered, Cancelled, Line, Unreachable, Untrusted, exchange
from agent.language_model.quoting import masked, plain
from agent.language_model.schema_bounds import without_bounds
from agent.language_model.usage import NOTHING, OK, UNTOLD, Usage, usage_of
from agent.language_model.without_text import LIMIT, why_no_text
from configs.language_model import KEY_VARIABLE, Endpoint
from experiments.measurement.evidence import Json

PATH = "/chat/completions"

ATTEMPTS = 4
"""Requests of one question that may fail for a cause that passes."""

FIRST_PAUSE_S = 1.0
"""Seconds before the second attempt; doubled before each later one."""

AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
"""Statuses after which the same request may succeed."""

TOO_LARGE = frozenset({400, 413, 422})
"""Statuses by which servers refuse a question that is too long."""

NOT_SERVED = frozenset({400, 415, 422, 501})
"""Statuses by which servers refuse an option that they don't know."""

TOO_LONG = re.compile(r"context[ _](?:length|size|window)")
"""Words by which servers say that a question and its answer don't fit into the model's context."""

SHORTER = "Lower language_model.prompt_tokens or language_model.answer_tokens, or serve a longer context."

_ITS_KEY = f"Put its key into {KEY_VARIABLE}."
_ITS_ADDRESS = (
    "It leads elsewhere, which is not followed: name the address itself (AUTOINFER_LLM_BASE_URL or "
    "language_model.base_url)."
)
TO_DO: Mapping[int, str] = {
    **dict.fromkeys((301, 302, 303, 307, 308), _ITS_ADDRESS),
    **dict.fromkeys((401, 403), _ITS_KEY),
    404: "Correct its address, which mostly ends in /v1, or the model's name.",
}
"""What to do about an answer with such a status."""

MOST_TEXT = 64_000
"""Characters of an answer that are looked at."""

SCHEMA, OBJECT, TEXT = "json_schema", "json_object", "text"
"""Forms of an answer, the strictest first."""


@dataclass(frozen=True)
class Question:
    """What is asked: the rules of the house, the data, the schema of the answer, and how long it may be.

    No further attempt is made once `most_untold` requests may have used tokens and told no count: the budget
    has room for so many.
    """

    system: str
    user: str
    schema: Mapping[str, Json]
    answer_tokens: int
    seed: int
    timeout_s: float
    temperature: float = 0.0
    most_untold: int = ATTEMPTS


@dataclass(frozen=True)
class Reply:
    """What came of a question: the text of the answer, or why there is none.

    `used` is that of all its attempts; `form` is the one that the server served.
    """

    text: str = ""
    failure: str | None = None
    used: Usage = NOTHING
    form: str = SCHEMA
    attempts: int = 0
    wall_s: float = 0.0
    was_cut: bool = False
    """Whether the answer ended at its limit of tokens."""


@dataclass(frozen=True)
class Options:
    """What a request may say and not every server takes."""

    form: str = SCHEMA
    bounds: bool = True
    """Whether the schema bounds texts, lists and numbers."""
    limit: str = "max_tokens"
    temperature: bool = True
    seed: bool = True

    def without(self, complaint: str) -> Options | None:
        """What is left when a server refused it with these words; None when nothing is left to leave out."""
        if self.limit == "max_tokens" and "max_completion_tokens" in complaint:
            return replace(self, limit="max_completion_tokens")
        if self.temperature and "temperature" in complaint:
            return replace(self, temperature=False)
        if self.seed and "seed" in complaint:
            return replace(self, seed=False)
        if self.form == SCHEMA and self.bounds:
            return replace(self, bounds=False)
        if self.form == SCHEMA:
            return replace(self, form=OBJECT)
        if self.form == OBJECT:
            return replace(self, form=TEXT)
        return None

    def body(self, endpoint: Endpoint, question: Question) -> bytes:
        """The request."""
        asked: dict[str, Any] = {
            "model": endpoint.model,
            "messages": [
                {"role": "system", "content": question.system},
                {"role": "user", "content": question.user},
            ],
            "stream": False,
            self.limit: question.answer_tokens,
        }
        if self.temperature:
            asked["temperature"] = question.temperature
        if self.seed:
            asked["seed"] = question.seed
        if self.form == SCHEMA:
            form = dict(question.schema) if self.bounds else without_bounds(question.schema)
            asked["response_format"] = {
                "type": SCHEMA,
                # Strict, OpenAI's servers refuse a schema with a property that may be left out.
                SCHEMA: {"name": "hypotheses", "strict": False, "schema": form},
            }
        elif self.form == OBJECT:
            asked["response_format"] = {"type": OBJECT}
        return json.dumps(asked).encode()


def ask(
    endpoint: Endpoint,
    question: Question,
    line: Line,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Reply:
    """Ask and return what came of it; raises nothing."""
    began = clock()
    deadline = began + question.timeout_s
    options, failed, requests, used = Options(), 0, 0, NOTHING
    while True:
        requests += 1
        passes, pause_s, complaint, sent = False, FIRST_PAUSE_S * 2**failed, "", line.sent
        try:
            answer = exchange(
                endpoint.base_url + PATH,
                options.body(endpoint, question),
                key=endpoint.key,
                deadline=deadline,
                line=line,
                clock=clock,
            )
            used += usage_of(answer.status, answer.body)
            if answer.status == OK:
                reply = read_reply(answer, endpoint.key, question.answer_tokens)
                return replace(reply, used=used, form=options.form, attempts=requests, wall_s=clock() - began)
            complaint = _words(answer, endpoint.key)
            failure = f"The endpoint answered {answer.status}{f': {complaint}' if complaint else ''}."
            passes = answer.status in AGAIN
            if answer.status in TO_DO:
                failure = f"{failure} {TO_DO[answer.status]}"
            pause_s = max(pause_s, answer.retry_after_s or 0.0)
            too_long = answer.status in TOO_LARGE and TOO_LONG.search(complaint.lower()) is not None
            less = options.without(complaint.lower()) if answer.status in NOT_SERVED else None
            if too_long:
                failure = f"{failure} {SHORTER}"
            elif less is not None:
                options = less
                continue
        except Cancelled as given_up:
            used += UNTOLD if line.sent > sent else NOTHING
            return Reply(failure=given_up.message, used=used, attempts=requests, wall_s=clock() - began)
        except Unreachable as fault:
            used += UNTOLD if line.sent > sent else NOTHING
            failure = f"{fault.message} {fault.hint}" if fault.hint else fault.message
            passes = not isinstance(fault, Untrusted)
        except Exception as error:  # nothing that a server sends may end a campaign
            used += UNTOLD if line.sent > sent else NOTHING
            failure = f"The answer can't be read: {type(error).__name__}."
        failed += 1
        if (
            not passes
            or failed == ATTEMPTS
            or used.untold_answers >= question.most_untold
            or clock() + pause_s >= deadline
        ):
            return Reply(
                failure=masked(failure, (endpoint.key,)),
                used=used,
                form=options.form,
                attempts=requests,
                wall_s=clock() - began,
            )
        line.wait(pause_s)


def read_reply(answer: Answered, key: str, answer_tokens: int) -> Reply:
    """The reply in an answer with status 200, but what it used; it could have `answer_tokens` tokens."""
    if answer.content_type and answer.content_type != "application/json":
        kind = plain(masked(answer.content_type, (key,)), 40)
        return Reply(failure=f"The endpoint answered with {kind}, not with JSON.")
    try:
        told = json.loads(answer.body)
    except (ValueError, RecursionError):
        return Reply(failure="The endpoint's answer is no JSON.")
    choices = told.get("choices") if isinstance(told, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    text = message.get("content") if isinstance(message, dict) else None
    if not isinstance(text, str) or not text.strip():
        return Reply(failure=why_no_text(told, answer_tokens, key))
    assert isinstance(first, dict)
    if len(text) > MOST_TEXT:
        return Reply(
            text=masked(text[:MOST_TEXT], (key,)),
            failure=f"The answer is longer than {MOST_TEXT} characters.",
        )
    return Reply(text=masked(text, (key,)), was_cut=first.get("finish_reason") == LIMIT)


def _words(answer: Answered, key: str) -> str:
    """What an error says of itself, bounded and without the key."""
    try:
        told = json.loads(answer.body)
    except (ValueError, RecursionError):
        return ""
    error = told.get("error", told) if isinstance(told, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return plain(masked(message, (key,))).rstrip(".") if isinstance(message, str) else ""

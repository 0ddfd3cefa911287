"""A real server process on loopback, and what comes of each way in which it can answer."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.language_model.asking import OBJECT, SCHEMA, SHORTER, TEXT, Question, Reply, ask
from agent.language_model.beside import Asked
from agent.language_model.exchange import Line
from agent.language_model.usage import NOTHING, UNTOLD, Usage
from configs.language_model import Endpoint
from tests.simulated.chat_server import MODEL, ChatServer, chat_server
from tests.simulated.secure_server import secure_server
from tests.waiting import PATIENCE_S

KEY = "sk-of-nobody-12345"
QUESTION = Question("Rules.", "Data.", {"type": "object"}, 50, 7, 20.0)
SOON = replace(QUESTION, timeout_s=0.5)
GOOD = {"content": '{"hypotheses": []}'}
COUNTED = Usage(1000, 100)
"""What the scripted server counts where it is not told otherwise."""


@pytest.fixture
def scripted(tmp_path: Path) -> Any:
    opened = []

    def serve(*script: Mapping[str, Any]) -> ChatServer:
        context = chat_server(tmp_path / str(len(opened)), script)
        opened.append(context)
        return context.__enter__()

    yield serve
    for each in opened:
        each.__exit__(None, None, None)


Serve = Callable[..., ChatServer]


class Quick(Line):
    """A line on which nobody waits between attempts; the pauses are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def wait(self, seconds: float) -> None:
        self.pauses.append(seconds)


def asked(
    server: ChatServer, question: Question = QUESTION, line: Line | None = None, key: str = KEY
) -> Reply:
    return ask(Endpoint(server.base_url, MODEL, key), question, line or Quick())


def test_an_answer_comes_with_its_tokens_and_the_question_carries_key_schema_and_limits(
    scripted: Serve,
) -> None:
    server = scripted({**GOOD, "usage": {"prompt_tokens": 11, "completion_tokens": 3}})
    reply = asked(server)
    assert (reply.text, reply.failure) == ('{"hypotheses": []}', None)
    assert (reply.used, reply.form, reply.attempts) == (Usage(11, 3), SCHEMA, 1)
    (request,) = server.requests
    assert request["path"] == "/v1/chat/completions"
    assert request["key"] == f"Bearer {KEY}"
    body = request["body"]
    assert (body["model"], body["max_tokens"], body["temperature"], body["seed"]) == (MODEL, 50, 0, 7)
    form = body["response_format"]["json_schema"]
    assert form["schema"] == {"type": "object"}
    assert form["strict"] is False  # no server may want every knob in every change
    assert [each["content"] for each in body["messages"]] == ["Rules.", "Data."]


def test_what_passes_by_itself_is_tried_again_with_longer_pauses(scripted: Serve) -> None:
    server = scripted({"status": 429, "body": "{}"}, {"status": 503, "body": "{}"}, {"does": "cut"}, GOOD)
    line = Quick()
    reply = asked(server, line=line)
    assert reply.failure is None
    assert reply.attempts == 4
    assert line.pauses == [1.0, 2.0, 4.0]
    assert reply.used == UNTOLD + COUNTED, "what was refused used nothing, what was cut off may have"


def test_no_attempt_is_made_that_the_budget_has_no_room_for(scripted: Serve) -> None:
    server = scripted({"status": 429, "body": "{}"}, {"does": "cut"}, GOOD)
    reply = asked(server, replace(QUESTION, most_untold=1))
    assert (reply.attempts, reply.used) == (2, UNTOLD)


def test_a_failed_attempt_that_tells_what_it_used_is_counted(scripted: Serve) -> None:
    told = json.dumps({"error": "lost", "usage": {"prompt_tokens": 4, "completion_tokens": 2}})
    good = {**GOOD, "usage": {"prompt_tokens": 11, "completion_tokens": 3}}
    assert asked(scripted({"status": 502, "body": told}, good)).used == Usage(15, 5)
    assert asked(scripted({"content": None, "usage": {"prompt_tokens": 9}})).used == Usage(9, None, 0, 1)


def test_the_server_says_how_long_to_wait_within_the_deadline(scripted: Serve) -> None:
    line = Quick()
    asked(scripted({"status": 429, "body": "{}", "headers": {"Retry-After": "3"}}, GOOD), line=line)
    assert line.pauses == [3.0]
    late = asked(scripted({"status": 429, "body": "{}", "headers": {"Retry-After": "3600"}}, GOOD))
    assert late.failure is not None
    assert late.attempts == 1


def test_four_attempts_are_all(scripted: Serve) -> None:
    reply = asked(scripted({"status": 500, "body": '{"error": {"message": "no room"}}'}))
    assert reply.failure == "The endpoint answered 500: no room."
    assert reply.attempts == 4


def test_what_a_server_does_not_serve_is_left_out(scripted: Serve) -> None:
    server = scripted({"refuses": ["json_schema"], **GOOD})
    assert asked(server).form == OBJECT
    assert asked(scripted({"refuses": ["json_schema", "json_object"], **GOOD})).form == TEXT
    reply = asked(scripted({"refuses": ["temperature", "seed"], **GOOD}))
    assert reply.failure is None
    assert reply.form == SCHEMA


def test_bounds_that_a_server_does_not_know_are_left_out_and_the_schema_stays(scripted: Serve) -> None:
    server = scripted({"refuses": ["maxLength"], **GOOD})
    bounded = replace(QUESTION, schema={"type": "string", "maxLength": 5})
    reply = asked(server, bounded)
    assert (reply.failure, reply.form, reply.attempts) == (None, SCHEMA, 2)


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 2048 tokens. However, your prompt has 2049 input tokens.",
        "the request exceeds the available context size, try increasing it",
    ],
)
def test_a_question_beyond_the_context_says_what_to_lower_and_is_not_put_again(
    scripted: Serve, words: str
) -> None:
    server = scripted({"status": 400, "body": json.dumps({"error": {"message": words}})})
    reply = asked(server)
    assert reply.failure == f"The endpoint answered 400: {words.rstrip('.')}. {SHORTER}"
    assert (reply.attempts, reply.form, reply.used) == (1, SCHEMA, NOTHING)


def test_what_is_refused_for_good_is_not_tried_again(scripted: Serve) -> None:
    told = json.dumps({"error": {"message": f"wrong key {KEY}"}})
    reply = asked(scripted({"status": 401, "body": told}))
    assert reply.failure == "The endpoint answered 401: wrong key ***. Put its key into AUTOINFER_LLM_KEY."
    assert reply.attempts == 1


def test_an_address_that_serves_no_chats_says_what_to_correct(scripted: Serve) -> None:
    reply = asked(scripted({"status": 404, "body": "{}"}))
    assert reply.failure == (
        "The endpoint answered 404. Correct its address, which mostly ends in /v1, or the model's name."
    )


def test_a_redirect_is_not_followed_so_the_key_stays(scripted: Serve) -> None:
    other = scripted(GOOD)
    away = f"{other.base_url}/chat/completions"
    reply = asked(scripted({"status": 307, "body": "", "headers": {"Location": away}}))
    assert reply.failure == (
        "The endpoint answered 307. It leads elsewhere, which is not followed: name the address itself "
        "(AUTOINFER_LLM_BASE_URL or language_model.base_url)."
    )
    assert other.requests == []


@pytest.mark.parametrize("does", ["hang", "drip", "endless", "headers"])
def test_whatever_never_ends_ends_at_the_deadline(scripted: Serve, does: str) -> None:
    server = scripted({"does": does})
    began = time.monotonic()
    reply = asked(server, SOON)
    assert reply.failure in ("No answer came in time.", "The answer is longer than 1048576 bytes.")
    assert time.monotonic() - began < PATIENCE_S


def test_a_huge_answer_is_not_read(scripted: Serve) -> None:
    assert asked(scripted({"does": "huge"})).failure == "The answer is longer than 1048576 bytes."


def test_a_text_of_a_hundred_thousand_characters_is_cut_and_refused(scripted: Serve) -> None:
    reply = asked(scripted({"content": "a" * 100_000}))
    assert reply.failure == "The answer is longer than 64000 characters."
    assert len(reply.text) == 64_000


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"body": "<html>", "type": "text/html"}, "The endpoint answered with text/html, not with JSON."),
        ({"body": "<html>"}, "The endpoint's answer is no JSON."),
        ({"body": "[" * 5000}, "The endpoint's answer is no JSON."),
        ({"body": "[]"}, "The endpoint's answer holds no text."),
        ({"body": '{"choices": [{"message": {"content": 7}}]}'}, "The endpoint's answer holds no text."),
        ({"body": '{"choices": {"0": 1}}'}, "The endpoint's answer holds no text."),
        ({"content": None}, "The endpoint's answer holds no text."),
    ],
)
def test_what_is_no_completion_is_said_to_be_none(scripted: Serve, answer: dict[str, Any], why: str) -> None:
    assert asked(scripted(answer)).failure == why


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        (
            {"finish_reason": "length", "message": {"content": None, "reasoning_content": "hm " * 50}},
            "The model used all its 50 tokens before it answered, as one that thinks aloud may. "
            "Raise language_model.answer_tokens, or let the server serve it without thinking.",
        ),
        (
            {"finish_reason": "length", "message": {"content": ""}},
            "The model used all its 50 tokens before it answered, as one that thinks aloud may. "
            "Raise language_model.answer_tokens, or let the server serve it without thinking.",
        ),
        (
            {"finish_reason": "tool_calls", "message": {"content": None, "tool_calls": [{"id": "a"}]}},
            "The model called a tool, and it was given none.",
        ),
        (
            {"finish_reason": "stop", "message": {"content": None, "refusal": "I can't help\u202e with it."}},
            "The model refused to answer: I can't help with it.",
        ),
        (
            {"finish_reason": "content_filter", "message": {"content": None}},
            "The endpoint kept the answer back (content_filter).",
        ),
    ],
)
def test_an_answer_without_text_says_what_came_in_its_place(
    scripted: Serve, choice: dict[str, Any], why: str
) -> None:
    assert asked(scripted({"body": json.dumps({"choices": [choice]})})).failure == why


def test_an_error_with_status_200_is_told_in_its_own_words(scripted: Serve) -> None:
    told = json.dumps({"error": {"message": f"no such model for {KEY}"}})
    assert asked(scripted({"body": told})).failure == (
        "The endpoint's answer holds no text, but an error: no such model for ***."
    )


def test_tokens_that_are_no_numbers_are_not_counted(scripted: Serve) -> None:
    reply = asked(scripted({**GOOD, "usage": {"prompt_tokens": -4, "completion_tokens": "many"}}))
    assert reply.used == UNTOLD


def test_the_key_is_masked_where_an_answer_repeats_it(scripted: Serve) -> None:
    assert asked(scripted({"content": f"Your key is {KEY}"})).text == "Your key is ***"


def test_the_key_is_masked_in_whatever_case_it_comes_back(scripted: Serve) -> None:
    """Types of content are read without regard to case."""
    reply = asked(scripted({"body": "{}", "type": f"text/{KEY.upper()}"}))
    assert reply.failure == "The endpoint answered with text/***, not with JSON."
    assert asked(scripted({"content": f"Your key is {KEY.upper()}"})).text == "Your key is ***"


def test_a_certificate_that_is_not_trusted_is_said_to_be_none_and_not_asked_again(tmp_path: Path) -> None:
    with secure_server(tmp_path) as (address, got):
        line = Quick()
        reply = ask(Endpoint(f"{address}/v1", MODEL, KEY), QUESTION, line)
    assert reply.failure == (
        "The endpoint's certificate is not trusted: self-signed certificate. Name the file of the authority "
        "that signed it in SSL_CERT_FILE, or ask an endpoint whose certificate is."
    )
    assert (reply.attempts, line.pauses, reply.used, got) == (1, [], NOTHING, [])


def test_a_server_that_speaks_no_tls_is_said_to_be_none(scripted: Serve) -> None:
    server = scripted(GOOD)
    reply = ask(Endpoint(server.base_url.replace("http:", "https:"), MODEL, KEY), QUESTION, Quick())
    assert reply.failure == (
        "The endpoint speaks no TLS. Write its address with http:// where it is on this machine."
    )
    assert (reply.attempts, server.requests) == (1, [])


def test_nobody_there_is_said_so() -> None:
    reply = ask(Endpoint("http://127.0.0.1:9/v1", MODEL), QUESTION, Quick())
    assert reply.failure == "The endpoint can't be reached: Connection refused."
    assert reply.used == Usage(), "nothing left this machine"


def test_a_question_that_is_given_up_ends_at_once(scripted: Serve) -> None:
    server = scripted({"does": "hang"})
    put = Asked(Endpoint(server.base_url, MODEL), QUESTION)
    assert put.answer() is None
    while not server.requests:
        time.sleep(0.01)
    put.give_up(wait_s=10)
    reply = put.answer()
    assert reply is not None
    assert (reply.failure, reply.used) == ("The question was given up.", UNTOLD)

"""What the client sends vLLM's server for a prompt, held against a small server with a tokenizer of letters.

The server is no vLLM: it answers in vLLM's words, and remembers what it was asked. A real one is asked in
`tests/integration/engines/test_vllm_over_http.py`.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web

from experiments.engines.port import GenerationRequest, GenerationTrace, Infeasible
from experiments.engines.vllm.http_client import Heard, ask_all, write_all

LETTERS = "abc"
"""The tokens 0, 1 and 2."""

CUT = 3
"""A token that is half of a letter: it is written as that letter, and nothing is read as it."""

UNKNOWN = 10**6
"""A token that the model does not have."""


class Server:
    """Answers as vLLM's server does, one token a request, and keeps what it was asked in its order."""

    def __init__(self, tokens_before_it_hangs: int | None = None) -> None:
        """`tokens_before_it_hangs` is how many a stream gets before nothing more comes; None for no such."""
        self.asked: list[tuple[str, Any]] = []
        self._before_it_hangs = tokens_before_it_hangs

    async def detokenize(self, request: web.Request) -> web.Response:
        tokens = (await self._body(request))["tokens"]
        if max(tokens) > CUT:
            return web.json_response({"error": {"message": "no such token", "code": 400}}, status=400)
        return web.json_response({"prompt": "".join((*LETTERS, LETTERS[0])[each] for each in tokens)})

    async def tokenize(self, request: web.Request) -> web.Response:
        text = (await self._body(request))["prompt"]
        if not isinstance(text, str):
            return web.Response(status=422, text="not a text")
        return web.json_response({"tokens": [LETTERS.index(each) for each in text]})

    async def completions(self, request: web.Request) -> web.StreamResponse:
        prompt = (await self._body(request))["prompt"]
        if isinstance(prompt, list) and UNKNOWN in prompt:
            return web.json_response({"error": {"message": "out of vocabulary", "code": 400}}, status=400)
        response = web.StreamResponse()
        await response.prepare(request)
        token = b"data: " + json.dumps({"choices": [{"token_ids": [7]}]}).encode() + b"\n\n"
        if self._before_it_hangs is not None:
            for _ in range(self._before_it_hangs):
                await response.write(token)
                await asyncio.sleep(SILENT_S / 2)
            await asyncio.sleep(60)
        await response.write(token)
        await response.write(b"data: [DONE]\n\n")
        return response

    async def health(self, request: web.Request) -> web.Response:
        self.asked.append((request.path, None))
        return web.Response()

    async def _body(self, request: web.Request) -> Any:
        body = await request.json()
        self.asked.append((request.path, body))
        return body

    @property
    def prompts(self) -> list[Any]:
        """What was sent to be gone on with."""
        return [body["prompt"] for path, body in self.asked if path == "/v1/completions"]


SILENT_S = 0.5
"""How long a server may give no token here."""

FIRST_S = 2 * SILENT_S

PATIENCE_S = 4 * SILENT_S
"""How long a block may take here."""

PATHS = ("/tokenize", "/detokenize", "/v1/completions")


def asked_for(
    server: Server,
    prompts: Sequence[tuple[int, ...]],
    at_once: int,
    paths: Sequence[str] = PATHS,
    *,
    prepared: bool = False,
    spoke_before: bool = False,
) -> list[GenerationTrace]:
    async def story() -> list[GenerationTrace]:
        app = web.Application()
        app.router.add_get("/health", server.health)
        for path in paths:
            app.router.add_post(path, getattr(server, path.rsplit("/", 1)[-1]))
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        told = {"address": f"http://{host}:{port}", "model": "model", "name": "block", "concurrency": at_once}
        try:
            requests = [GenerationRequest(str(place), ids, 1) for place, ids in enumerate(prompts)]
            written = await write_all(told, requests) if prepared else {}
            if prepared:
                server.asked.clear()
            heard = Heard(SILENT_S, FIRST_S)
            if spoke_before:
                heard.now()
                await asyncio.sleep(SILENT_S)  # that between blocks no token comes is no silence
            traces, _ = await asyncio.wait_for(ask_all(told, requests, written, heard), PATIENCE_S)
            return traces
        finally:
            await runner.cleanup()

    return asyncio.run(story())


def test_a_prompt_goes_out_as_the_text_that_the_server_reads_as_its_tokens() -> None:
    server = Server()
    traces = asked_for(server, [(0, 1, 2), (2, 2)], 1)
    assert server.prompts == ["abc", "cc"]
    assert [trace.token_ids for trace in traces] == [(7,), (7,)]


def test_a_prompt_that_no_text_is_read_as_goes_out_as_its_tokens() -> None:
    server = Server()
    asked_for(server, [(0, CUT), (0, 1)], 1)
    assert server.prompts == [[0, CUT], "ab"]


def test_a_token_that_the_model_does_not_have_is_refused_by_the_server_and_not_by_its_tokenizer() -> None:
    server = Server()
    with pytest.raises(Infeasible, match="vLLM refused the request: out of vocabulary") as refused:
        asked_for(server, [(0, UNKNOWN)], 1)
    assert refused.value.kind == "illegal"


def test_every_text_is_written_before_the_first_request_whose_time_is_taken() -> None:
    server = Server()
    asked_for(server, [(0,), (1,), (2,), (0, 1)], 2)
    paths = [path for path, _ in server.asked]
    first = paths.index("/v1/completions")
    assert set(paths[first:]) == {"/v1/completions"}
    assert paths[:first].count("/detokenize") == paths[:first].count("/tokenize") == 4


@pytest.mark.parametrize("missing", ["/tokenize", "/detokenize"])
def test_a_server_that_does_not_tell_what_it_reads_is_not_asked_by_tokens_in_silence(missing: str) -> None:
    server, told = Server(), rf"does not tell what its tokenizer reads \(status 404 at {missing}\)"
    with pytest.raises(Infeasible, match=told) as refused:
        asked_for(server, [(0, 1), (2,)], 1, [path for path in PATHS if path != missing])
    assert refused.value.kind == "unsupported"
    assert server.prompts == []


def test_a_server_that_breaks_off_while_texts_are_written_is_told_as_that() -> None:
    class Gone(Server):
        async def tokenize(self, request: web.Request) -> web.Response:
            assert request.transport is not None
            request.transport.close()
            return web.Response()

    with pytest.raises(Infeasible, match="The connection to vLLM's HTTP server broke") as broken:
        asked_for(Gone(), [(0, 1)] * 8, 2)
    assert broken.value.kind == "crashed"


def test_of_a_block_that_was_prepared_nothing_is_written_while_it_is_timed() -> None:
    server = Server()
    asked_for(server, [(0, 1, 2), (0, CUT)], 1, prepared=True)
    assert [path for path, _ in server.asked] == ["/health", "/v1/completions", "/v1/completions"]
    assert server.prompts == ["abc", [0, CUT]]


def test_the_server_s_tokenizer_puts_nothing_before_a_text() -> None:
    server = Server()
    asked_for(server, [(0, 1)], 1)
    asked = {path: body for path, body in server.asked if body is not None}
    assert asked["/tokenize"]["add_special_tokens"] is False
    assert asked["/v1/completions"]["add_special_tokens"] is False


@pytest.mark.parametrize(("tokens", "spoke_before"), [(3, False), (3, True), (0, True)])
def test_a_server_that_hangs_is_given_up_once_no_token_came_for_too_long(
    tokens: int, spoke_before: bool
) -> None:
    begun_s = time.perf_counter()
    with pytest.raises(Infeasible, match=r"gave no token of any request for 0\.5 s") as told:
        asked_for(
            Server(tokens_before_it_hangs=tokens), [(0,), (1,), (2,)], at_once=2, spoke_before=spoke_before
        )
    assert told.value.kind == "timed_out"
    # a token puts it off
    assert time.perf_counter() - begun_s >= SILENT_S + max(0, tokens - 1) * SILENT_S / 2


def test_before_its_first_token_a_server_has_the_time_of_one_request_whatever_follows_it() -> None:
    begun_s = time.perf_counter()
    with pytest.raises(Infeasible, match=r"gave no token of any request for 1 s") as told:
        asked_for(Server(tokens_before_it_hangs=0), [(0,), (1,), (2,)], at_once=1)
    assert told.value.kind == "timed_out"
    assert time.perf_counter() - begun_s >= FIRST_S


def test_of_no_requests_there_is_no_trace() -> None:
    assert asked_for(Server(), [], at_once=1) == []


def test_a_long_block_whose_tokens_come_is_not_given_up() -> None:
    class Slow(Server):
        async def completions(self, request: web.Request) -> web.StreamResponse:
            await asyncio.sleep(SILENT_S * 0.6)
            return await super().completions(request)

    # 0.9 s in all, none longer than 0.3 s without a token
    assert len(asked_for(Slow(), [(0,)] * 3, at_once=1, spoke_before=True)) == 3

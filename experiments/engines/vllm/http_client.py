"""Asks vLLM's own HTTP server in a closed loop and takes the times: a process of its own, in vLLM's Python.

It is what `vllm bench serve --max-concurrency N` is to that server: so many streamed requests are under way,
and as soon as one has ended the next one starts. A request's times begin when it is sent; a chunk's time is
taken when it was read, as there. Prompts go out as texts, as its users send them and as that command does: a
text is read before its request is scheduled, and at many requests at once what comes a moment later
comes a whole step later. A prompt that no text is read as goes out as token ids.

What is sent for the prompts of a block is asked for before the block, and not within its time.

A server that hangs gives no token of any request: a block is given up after `FIRST_LIMIT_S` of that, and
after `SILENT_LIMIT_S` once it has given its first one, long before the time is over that all of its requests
may take.

It reads blocks from stdin and answers on stdout (`messages`), one after the other; started by
`http_client_process.py`, it stays for the whole launch and ends with the process that started it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from configs.quantities import format_duration
from experiments.engines.messages import data_of, infeasible_data, messages_of, send
from experiments.engines.parent import requests_from
from experiments.engines.port import GenerationRequest, GenerationTrace, Infeasible
from experiments.engines.vllm.silence import FIRST_LIMIT_S, SILENT, SILENT_LIMIT_S
from experiments.measurement.evidence import Json

if TYPE_CHECKING:
    import aiohttp

EVENT, DATA, DONE = b"\n\n", b"data: ", b"[DONE]"
"""What ends an event of a stream, what begins one that tells something, and what the last one tells."""

AS_IT_IS: dict[str, Json] = {"add_special_tokens": False}
"""That the server's tokenizer puts nothing before a text: what a model wants there is in the prompt."""

WRITTEN_AT_ONCE = 8
"""Prompts under way to the server's tokenizer."""

REFUSED = 400
"""The status of a request that the server does not take."""

NOT_THERE = (404, 405)
"""The statuses of a path that the server does not have, or not to be asked so."""


async def write_all(
    told: Mapping[str, Any], requests: Sequence[GenerationRequest]
) -> dict[tuple[int, ...], Json]:
    """What is sent for each prompt (`prompt_of`), by its tokens; raises what the first to fail raises."""
    import aiohttp

    connector = aiohttp.TCPConnector(limit=WRITTEN_AT_ONCE)
    try:
        async with aiohttp.ClientSession(str(told["address"]), connector=connector) as session:
            asked = (prompt_of(session, str(told["model"]), each) for each in requests)
            written = await asyncio.gather(*asked)
    except aiohttp.ClientError as broken:
        raise _told(broken) from None
    return {request.prompt_ids: prompt for request, prompt in zip(requests, written, strict=True)}


async def ask_all(
    told: Mapping[str, Any],
    requests: Sequence[GenerationRequest],
    written: Mapping[tuple[int, ...], Json],
    heard: Heard,
) -> tuple[list[GenerationTrace], list[str]]:
    """One trace a request, in their order, and the name that each had; raises what the first to fail raises,
    and ends the others. `written` is what is sent for prompts, as far as it is known; the rest is written
    first. `heard` is of the server, whichever block it answers: raises `Infeasible` of kind `timed_out` where
    that says that it hangs."""
    import aiohttp

    if unwritten := [each for each in requests if each.prompt_ids not in written]:
        written = {**written, **await write_all(told, unwritten)}
    address, model, concurrency = str(told["address"]), str(told["model"]), int(told["concurrency"])
    traces: dict[int, GenerationTrace] = {}
    names = [f"{told['name']}-{place}" for place in range(len(requests))]
    waiting = iter(enumerate(requests))
    connector = aiohttp.TCPConnector(limit=concurrency)
    limit = aiohttp.ClientTimeout(total=None)  # who asked for the block has one
    try:
        async with aiohttp.ClientSession(address, connector=connector, timeout=limit) as session:

            async def one_after_the_other() -> None:
                for place, request in waiting:
                    prompt = written[request.prompt_ids]
                    traces[place] = await ask(session, model, names[place], request, prompt, heard)

            at_once = range(min(concurrency, len(requests)))
            await asyncio.gather(*(connect(session) for _ in at_once))
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(heard.watch())
                await asyncio.gather(*(group.create_task(one_after_the_other()) for _ in at_once))
                watch.cancel()
    except ExceptionGroup as failures:
        raise _told(failures.exceptions[0]) from None
    except aiohttp.ClientError as broken:
        raise _told(broken) from None
    return [traces[place] for place in range(len(requests))], names


class Heard:
    """When a server's last token came, of whichever request. Until its first one it may compile."""

    def __init__(self, limit_s: float = SILENT_LIMIT_S, first_limit_s: float = FIRST_LIMIT_S) -> None:
        """`limit_s` is how long none may come, and `first_limit_s` until the first."""
        self._limit_s, self._first_limit_s = limit_s, first_limit_s
        self._begun = asyncio.Event()
        self._at_s = 0.0

    def now(self) -> None:
        """Note that one came."""
        self._at_s = time.perf_counter()
        self._begun.set()

    async def watch(self) -> None:
        """Go on until cancelled; raises `Infeasible` of kind `timed_out` once none came for too long, counted
        from now at the earliest."""
        waits_since_s = time.perf_counter()
        try:
            async with asyncio.timeout(self._first_limit_s):  # `wait_for` of 3.11 may swallow the cancelling
                await self._begun.wait()
        except TimeoutError:
            raise Infeasible("timed_out", f"{SILENT} for {format_duration(self._first_limit_s)}") from None
        while (left_s := max(self._at_s, waits_since_s) + self._limit_s - time.perf_counter()) > 0:
            await asyncio.sleep(left_s)
        raise Infeasible("timed_out", f"{SILENT} for {format_duration(self._limit_s)}")


async def connect(session: aiohttp.ClientSession) -> None:
    """Open a connection that a request will find open."""
    async with session.get("/health") as response:
        await response.read()


async def prompt_of(session: aiohttp.ClientSession, model: str, request: GenerationRequest) -> Json:
    """What is sent for a prompt: the text that the server itself reads as these very tokens; the tokens where
    it has none, such as a word that is cut, or a token that the model does not have.

    Raises `Infeasible` where the server does not tell what it reads: all would go out as tokens unseen.
    """
    ids: list[Json] = list(request.prompt_ids)
    text = await _told_by(session, "/detokenize", "prompt", {"model": model, "tokens": ids})
    read = await _told_by(session, "/tokenize", "tokens", {"model": model, "prompt": text, **AS_IT_IS})
    return text if read == ids else ids


async def _told_by(session: aiohttp.ClientSession, path: str, what: str, body: dict[str, Json]) -> Json:
    """What the server's tokenizer says; None where it says nothing of this. Raises `Infeasible` where nobody
    answers at that path."""
    async with session.post(path, json=body) as response:
        if response.status in NOT_THERE:
            raise Infeasible(
                "unsupported",
                f"This vLLM's HTTP server does not tell what its tokenizer reads (status {response.status} "
                f"at {path}), so that prompts can't go out as texts; ask it in its own process: "
                "asked_over: engine.",
            )
        told = await response.json(content_type=None) if response.status == 200 else None
    return told.get(what) if isinstance(told, Mapping) else None


async def ask(
    session: aiohttp.ClientSession,
    model: str,
    name: str,
    request: GenerationRequest,
    prompt: Json,
    heard: Heard,
) -> GenerationTrace:
    """One streamed, greedy generation of what `prompt_of` made of the request's prompt; `heard` is told of
    each token."""
    body: dict[str, Json] = {
        "model": model,
        "prompt": prompt,
        "max_tokens": request.new_tokens,
        "temperature": 0.0,
        "seed": request.seed,
        "ignore_eos": True,
        "stream": True,
        "return_token_ids": True,
        **AS_IT_IS,
    }
    if request.stop_ids:
        body["stop_token_ids"] = list(request.stop_ids)
    ids: list[int] = []
    times_s: list[float] = []
    start_s = time.perf_counter()
    async with session.post("/v1/completions", json=body, headers={"X-Request-Id": name}) as response:
        if response.status != 200:
            raise _refusal(response.status, await response.text())
        async for event in _events(response.content.iter_any()):
            told = json.loads(event)
            if "error" in told:
                raise _failed(told["error"])
            for choice in told["choices"]:
                new = choice["token_ids"]
                times_s += [time.perf_counter() - start_s] * len(new)
                ids += new
            heard.now()
    kept = request.kept(ids)
    if not kept or not request.ended_by(kept):
        raise Infeasible(
            "crashed",
            f"vLLM's HTTP server gave {len(ids)} tokens of the {request.new_tokens} that were asked for.",
        )
    return GenerationTrace(kept, tuple(times_s[: len(kept)]), start_s=start_s)


async def _events(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """What the events of a stream tell, each as soon as it is whole."""
    begun = b""
    async for piece in pieces:
        *whole, begun = (begun + piece).split(EVENT)
        for event in whole:
            told = event.strip()
            if told.startswith(DATA) and (data := told.removeprefix(DATA)) != DONE:
                yield data


def _told(failure: BaseException) -> BaseException:
    """A failure of the connection as a sentence; any other as it is."""
    import aiohttp

    if not isinstance(failure, aiohttp.ClientError):
        return failure
    why = " ".join(f"{type(failure).__name__}: {failure}".split()).rstrip(".: ")
    return Infeasible("crashed", f"The connection to vLLM's HTTP server broke ({why}).")


def _refusal(status: int, text: str) -> Infeasible:
    """What the server says in place of a stream."""
    try:
        told = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        told = text
    if status == REFUSED:
        return Infeasible("illegal", f"vLLM refused the request: {_words(told)}")
    return Infeasible("crashed", f"vLLM's HTTP server answered with status {status}: {_words(told)}")


def _failed(told: object) -> Infeasible:
    """What the server says within a stream, which it may begin before it has looked at the request."""
    if isinstance(told, Mapping) and told.get("code") == REFUSED:
        return Infeasible("illegal", f"vLLM refused the request: {_words(told)}")
    return Infeasible("crashed", f"vLLM's HTTP server ended an answer: {_words(told)}")


def _words(told: object) -> str:
    message = told.get("message", told) if isinstance(told, Mapping) else told
    return " ".join(str(message).split())


async def answer_blocks() -> None:
    """Answer until the parent goes."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    blocks = requests_from(sys.stdin.buffer)
    loop = asyncio.get_running_loop()
    import aiohttp  # noqa: F401 -- before the first block

    written: dict[tuple[int, ...], Json] = {}
    heard = Heard()
    gc.collect()
    gc.freeze()
    while True:
        told = await loop.run_in_executor(None, blocks.get)
        requests = messages_of(GenerationRequest, told["requests"])
        reply: dict[str, Json]
        try:
            if told.get("prepare"):
                written = await write_all(told, requests)
                reply = {"ok": {}}
            else:
                traces, names = await ask_all(told, requests, written, heard)
                reply = {"ok": {"traces": [data_of(trace) for trace in traces], "names": list(names)}}
        except Infeasible as refusal:
            reply = infeasible_data(refusal)
        except Exception as failure:
            traceback.print_exception(failure)
            told_why = " ".join(str(failure).split())
            reply = infeasible_data(Infeasible("crashed", f"{type(failure).__name__}: {told_why}"))
        send(replies, reply)


def main() -> None:
    """Answer in the event loop that `vllm bench serve` has."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    asyncio.run(answer_blocks())


if __name__ == "__main__":
    main()

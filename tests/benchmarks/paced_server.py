"""A server whose times are known: it answers by a timetable and writes down when. It is no engine and no GPU.

It speaks `/v1/completions` as vLLM's HTTP server streams it (0.26 to 0.33: chunks of HTTP/1.1, one event of
the stream each, headers at once, the last token followed by `usage` where that is asked for and by `[DONE]`),
and reads nothing of a prompt but its tokens, which it tells back to a client that asks for ids.

The timetable: steps come every `step_ms`, whether or not anything is under way. The i-th request's first
token is due at the first step that comes `first_ms[i]` or more after the request arrived, and then one token
at every step, as every other request under way gets one. i is the number at the end of the request's name
(`X-Request-Id`: ours and those of `vllm bench serve` end with their place in the run); a request without one,
as that bench's warm-up, has place 0.

It notes, in seconds of `time.perf_counter`, which on Linux is one clock for all processes of a machine: when
a request had arrived whole, as this process read it; when each token was due; and when it was handed to its
socket, taken before the call, so that no client can have read it earlier. What is late is late in the record
too, and nothing is skipped: where a step is late the next ones come at their own times.

Started by `paced_process.py`; ends with the end of its stdin. Imports the standard library alone.
"""

import asyncio
import gc
import json
import math
import selectors
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

LOCAL = "127.0.0.1"

TIMETABLE, RECORD = "/timetable", "/record"
"""Where the timetable is set, which forgets what was noted, and where that is told."""

WORD = " t"
"""What a token's number is written behind, in the text that stands for it."""

MADE_UP = 7
"""The token that every answer is made of, and its text."""
TEXT = " seven"

HEAD_END = b"\r\n\r\n"

STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)


@dataclass(frozen=True)
class Timetable:
    """When tokens are due: see the head of this page."""

    step_ms: float
    first_ms: Sequence[float]


@dataclass
class Answered:
    """What is noted of a request: seconds of `time.perf_counter`, one entry a token where there are many.

    `waited` counts tokens that the socket did not take at once, so that they left later than noted.
    """

    name: str
    arrived_s: float
    due_s: list[float] = field(default_factory=list)
    written_s: list[float] = field(default_factory=list)
    waited: int = 0


def tokens_of(prompt: object) -> list[int]:
    """The tokens of a prompt; of a text that this server did not write, as many as it has words."""
    if isinstance(prompt, list):
        return [int(each) for each in prompt]
    words = str(prompt).split()
    return [int(word[1:]) if word[:1] == "t" and word[1:].isdecimal() else 0 for word in words]


def text_of(tokens: Sequence[int]) -> str:
    """A text that `tokens_of` reads as these tokens."""
    return "".join(f"{WORD}{token}" for token in tokens)


def chunk(event: str) -> bytes:
    """An event of a stream as a chunk of HTTP/1.1."""
    told = f"data: {event}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(told), told)


class Stream:
    """A request under way: the chunks that it gets, one a step."""

    def __init__(
        self, transport: asyncio.Transport, body: Mapping[str, Any], note: Answered, first_step: int
    ) -> None:
        self._transport = transport
        self.note = note
        self.first_step = first_step
        self._left = self._tokens = int(body["max_tokens"])
        prompt = tokens_of(body["prompt"])
        with_ids = bool(body.get("return_token_ids"))
        self._common = {"id": f"cmpl-{note.name}", "object": "text_completion", "created": int(time.time())}
        self._model = body["model"]
        self._first = self._token(None, prompt if with_ids else None, with_ids=with_ids)
        self._middle = self._token(None, None, with_ids=with_ids)
        self._last = self._token("length", None, with_ids=with_ids)
        self._end = chunk("[DONE]") + b"0\r\n\r\n"
        if (body.get("stream_options") or {}).get("include_usage"):
            total = len(prompt) + self._tokens
            usage = {
                "prompt_tokens": len(prompt),
                "total_tokens": total,
                "completion_tokens": self._tokens,
            }
            told = {**self._common, "model": self._model, "choices": [], "usage": usage}
            self._end = chunk(json.dumps(told, separators=(",", ":"))) + self._end

    def _token(self, finish: str | None, prompt: list[int] | None, *, with_ids: bool) -> bytes:
        choice = {
            "index": 0,
            "text": TEXT,
            "logprobs": None,
            "finish_reason": finish,
            "stop_reason": None,
            "prompt_token_ids": prompt,
            "token_ids": [MADE_UP] if with_ids else None,
        }
        told = {**self._common, "model": self._model, "choices": [choice]}
        return chunk(json.dumps(told, separators=(",", ":")))

    @property
    def is_gone(self) -> bool:
        """Whether the client has left."""
        return self._transport.is_closing()

    def give(self, due_s: float) -> bool:
        """Hand over the next token; whether it was the last."""
        self._left -= 1
        told = self._first if self._left == self._tokens - 1 else self._middle if self._left else self._last
        self.note.due_s.append(due_s)
        self.note.written_s.append(time.perf_counter())
        self._transport.write(told)
        if self._transport.get_write_buffer_size():
            self.note.waited += 1
        if not self._left:
            self._transport.write(self._end)
        return not self._left


class Pace:
    """The steps, and who gets a token at them."""

    def __init__(self) -> None:
        self._next: asyncio.TimerHandle | None = None
        self.set(Timetable(1e3, (0.0,)))

    def set(self, table: Timetable) -> None:
        """Go by this timetable from now on, with nothing noted and nothing under way."""
        if self._next is not None:
            self._next.cancel()
        self._table = table
        self._streams: list[Stream] = []
        self._record: list[Answered] = []
        self._zero_s, self._step = time.perf_counter(), 0
        self._await_step()

    def begin(
        self, transport: asyncio.Transport, body: Mapping[str, Any], name: str, arrived_s: float
    ) -> None:
        """Take a request."""
        place = name.rpartition("-")[2]
        first = self._table.first_ms
        wait_ms = first[int(place) % len(first) if place.isdecimal() else 0]
        step = math.ceil((arrived_s + wait_ms / 1e3 - self._zero_s) / (self._table.step_ms / 1e3))
        note = Answered(name, arrived_s)
        self._record.append(note)
        transport.write(STREAM_HEAD)
        self._streams.append(Stream(transport, body, note, max(step, self._step)))

    def record(self) -> list[dict[str, Any]]:
        """What was noted since the timetable was set, in the order of arrival."""
        return [asdict(each) for each in self._record]

    def _due_s(self) -> float:
        return self._zero_s + self._step * self._table.step_ms / 1e3

    def _await_step(self) -> None:
        loop = asyncio.get_running_loop()
        self._next = loop.call_later(self._due_s() - time.perf_counter(), self._give)

    def _give(self) -> None:
        due_s, step = self._due_s(), self._step
        going_on = []
        for each in self._streams:
            is_over = each.is_gone or (each.first_step <= step and each.give(due_s))
            if not is_over:
                going_on.append(each)
        self._streams = going_on
        self._step += 1
        self._await_step()


class Connection(asyncio.Protocol):
    """A connection of HTTP/1.1 that stays open; one request at a time, each with its length."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where to answer."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request that is whole."""
        arrived_s = time.perf_counter()
        self._read += data
        while HEAD_END in self._read:
            head, _, rest = self._read.partition(HEAD_END)
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)
            }
            length = int(headers.get("content-length", 0))
            if len(rest) < length:
                return
            self._read = rest[length:]
            self._answer(first.split()[1], rest[:length], headers.get("x-request-id", ""), arrived_s)

    def _answer(self, path: str, body: bytes, name: str, arrived_s: float) -> None:
        if path == "/v1/completions":
            told = json.loads(body)
            if told.get("stream"):
                self._pace.begin(self._transport, told, name, arrived_s)
            else:
                self._tell(
                    {"error": {"message": "This server streams alone.", "code": 400}}, "400 Bad Request"
                )
            return
        plain: Mapping[str, Callable[[], Any]] = {
            "/health": dict,
            "/detokenize": lambda: {"prompt": text_of(json.loads(body)["tokens"])},
            "/tokenize": lambda: {"tokens": tokens_of(json.loads(body)["prompt"])},
            TIMETABLE: lambda: self._pace.set(Timetable(**json.loads(body))),
            RECORD: self._pace.record,
        }
        if path in plain:
            self._tell(plain[path](), "200 OK")
        else:
            self._tell({"error": {"message": f"no {path} here", "code": 404}}, "404 Not Found")

    def _tell(self, told: object, status: str) -> None:
        body = json.dumps(told).encode()
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)


async def serve() -> None:
    """Tell the address on stdout and serve until stdin ends."""
    loop = asyncio.get_running_loop()
    pace = Pace()
    server = await loop.create_server(lambda: Connection(pace), LOCAL, 0)
    ended = asyncio.Event()
    loop.add_reader(sys.stdin, lambda: None if sys.stdin.buffer.read1() else ended.set())
    print(f"http://{LOCAL}:{server.sockets[0].getsockname()[1]}", flush=True)
    gc.collect()
    gc.disable()
    await ended.wait()


def main() -> None:
    """Serve in a loop that waits by `select`: others wait for whole milliseconds."""
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    try:
        loop.run_until_complete(serve())
    finally:
        loop.close()


if __name__ == "__main__":
    main()

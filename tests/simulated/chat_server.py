"""A server on 127.0.0.1 that speaks OpenAI's chat completions, with answers that a file scripts.

`python -P -m tests.simulated.chat_server FOLDER PARENT` reads `FOLDER/script.json`, a list of answers of
which the last repeats, prints its address and writes each request, a line of JSON, to `FOLDER/requests`. It
ends with the process PARENT. An answer is an object:

- `content`: the text of a completion, with `usage` and `finish_reason` if given; `body` in its place is the
  whole body, `status` and `type` the status and the content type, `headers` more headers;
- `refuses`: words in a request that make it answer 400 instead, with these words, and stay at this answer;
- `does`: `hang` (says nothing), `drip` (a byte at a time, for ever), `endless` (chunks for ever), `huge` (a
  body of 64 MB), `cut` (closes in the middle of the body), `headers` (a header that never ends).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODEL = "scripted/model"
LOOK_S = 0.02


@dataclass(frozen=True)
class ChatServer:
    """A running server: its base URL, and the requests that it got so far."""

    base_url: str
    folder: Path

    @property
    def requests(self) -> list[dict[str, Any]]:
        file = self.folder / "requests"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@contextmanager
def chat_server(folder: Path, script: Sequence[Mapping[str, Any]]) -> Iterator[ChatServer]:
    """Serve the script in a process of its own until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.json").write_text(json.dumps(list(script)))
    argv = [sys.executable, "-P", "-m", "tests.simulated.chat_server", str(folder), str(os.getpid())]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield ChatServer(process.stdout.readline().strip(), folder)
        finally:
            process.kill()


def completion(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": answer.get("content")},
                "finish_reason": answer.get("finish_reason", "stop"),
            }
        ],
        "usage": answer.get("usage", {"prompt_tokens": 1000, "completion_tokens": 100}),
    }


def handler(folder: Path, script: list[dict[str, Any]]) -> type[BaseHTTPRequestHandler]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self._body(200, "application/json", json.dumps({"data": [{"id": MODEL}]}).encode(), {})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                answer = script[0]
                refused = next(
                    (each for each in answer.get("refuses", ()) if each in json.dumps(asked)), None
                )
                if refused is None and len(script) > 1:
                    script.pop(0)
                line = {"path": self.path, "key": self.headers.get("Authorization"), "body": asked}
                with (folder / "requests").open("a") as file:
                    file.write(json.dumps(line) + "\n")
            if refused is not None:
                told = {"error": {"message": f"{refused} is not served here"}}
                self._body(400, "application/json", json.dumps(told).encode(), {})
            elif "does" in answer:
                with suppress(OSError):
                    getattr(self, f"_{answer['does']}")()
                self.close_connection = True
            else:
                body = answer.get("body")
                text = json.dumps(completion(answer)) if body is None else body
                kind = answer.get("type", "application/json")
                self._body(answer.get("status", 200), kind, text.encode(), answer.get("headers", {}))

        def _body(self, status: int, kind: str, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": kind, **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        def _begin(self, length: int | None) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            if length is None:
                self.send_header("Transfer-Encoding", "chunked")
            else:
                self.send_header("Content-Length", str(length))
            self.end_headers()

        def _hang(self) -> None:
            self.rfile.read(1)  # until the other side goes

        def _drip(self) -> None:
            self._begin(1_000_000)
            while True:
                self.wfile.write(b" ")
                time.sleep(LOOK_S)

        def _endless(self) -> None:
            self._begin(None)
            while True:
                self.wfile.write(b"1000\r\n" + b"a" * 0x1000 + b"\r\n")

        def _huge(self) -> None:
            self._begin(64_000_000)
            for _ in range(64):
                self.wfile.write(b"a" * 1_000_000)

        def _cut(self) -> None:
            self._begin(1000)
            self.wfile.write(b'{"choices":')

        def _headers(self) -> None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
            while True:
                self.wfile.write(b"a")
                time.sleep(LOOK_S)

    return Handler


def main(folder: Path, parent: int) -> None:
    script = json.loads((folder / "script.json").read_text())
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(folder, script))
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while os.getppid() == parent:
        time.sleep(1.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

"""A hub on 127.0.0.1 that answers the few requests a checkpoint is fetched by, over HTTP.

It stands for the real hub in what huggingface_hub asks: the model's page in JSON, the listing of a commit,
and files by commit. What it refuses it refuses as the hub documents it: a status and an `X-Error-Code`.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

RANGE = re.compile(r"bytes=(\d+)-(\d+)")
"""The header of a request for a part of a file."""


@dataclass
class Repository:
    """One model of the hub: its files by commit, its branches, and whether it is gated."""

    commits: dict[str, dict[str, bytes]]
    branches: dict[str, str]
    gated: bool = False


@dataclass
class HubServer:
    """The hub: its address, its models by `owner/name`, the paths it was asked for, and bytes sent of
    each."""

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)


@contextmanager
def serving(**repositories: Repository) -> Iterator[HubServer]:
    """Serve models, `owner__name` standing for `owner/name`, until the block ends."""
    hub = HubServer(repositories={key.replace("__", "/"): each for key, each in repositories.items()})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def _answer(self, *, with_body: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.asked.append(path)
            status, headers, body = answer(hub, path)
            asked = RANGE.fullmatch(self.headers.get("Range", "")) if status == 200 else None
            if asked is not None:
                status, body = 206, body[int(asked[1]) : int(asked[2]) + 1]
            hub.sent[path] = hub.sent.get(path, 0) + (len(body) if with_body else 0)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answer(hub: HubServer, path: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body for a path."""
    words = path.strip("/").split("/")
    if words[:2] == ["api", "models"]:
        repo, rest = "/".join(words[2:4]), words[4:]
    else:
        repo, rest = "/".join(words[:2]), words[2:]
    found = hub.repositories.get(repo)
    if found is None:
        return refused(401, "RepoNotFound")
    revision = rest[1] if len(rest) > 1 else "main"
    commit = found.branches.get(revision, revision)
    files = found.commits.get(commit)
    if files is None:
        return refused(404, "RevisionNotFound")
    if rest[:1] == ["resolve"]:
        name = "/".join(rest[2:])
        if found.gated:
            return refused(403, "GatedRepo")
        if name not in files:
            return refused(404, "EntryNotFound")
        return 200, {"ETag": f'"{blob(files[name])}"', "X-Repo-Commit": commit}, files[name]
    if rest[:1] == ["tree"]:
        return as_json([{"type": "file", "path": n, **sizes(b)} for n, b in files.items()])
    siblings = [{"rfilename": name, "size": len(body)} for name, body in files.items()]
    return as_json({"id": repo, "sha": commit, "siblings": siblings, "private": False, "gated": found.gated})


def blob(body: bytes) -> str:
    return hashlib.sha1(body).hexdigest()


def sizes(body: bytes) -> dict[str, Any]:
    return {"size": len(body), "oid": blob(body)}


def as_json(data: object) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(data).encode()


def refused(status: int, code: str) -> tuple[int, dict[str, str], bytes]:
    return status, {"X-Error-Code": code, "X-Error-Message": code}, b""

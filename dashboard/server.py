"""Serving the app: which address, which port, and until when."""

from __future__ import annotations

import errno
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI

from configs.errors import AutoinferError, UsageError
from dashboard.web.security import Access, is_loopback

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8420

PORTS_TRIED = 20
"""Ports after the first that are tried where it is in use and was not asked for by name."""

SHUTDOWN_S = 2.0
"""Seconds that streams are given to end when the server does."""

TOKEN_BYTES = 16


@dataclass(frozen=True)
class Listening:
    """A bound socket with the address to open, which holds the token where one is asked for."""

    socket: socket.socket
    address: str
    access: Access


def listen(host: str = DEFAULT_HOST, port: int | None = None) -> Listening:
    """Bind the port, or the first free one from `DEFAULT_PORT` on where none is given.

    Raises `UsageError` for a host that is not this machine's, `AutoinferError` for a port in use.
    """
    wanted = range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED + 1) if port is None else (port,)
    for each in wanted:
        bound = _bound(host, each)
        if bound is not None:
            break
    else:
        raise AutoinferError(
            f"Port {wanted[0]} of {host} is in use."
            if port is not None
            else f"The ports {wanted[0]} to {wanted[-1]} of {host} are all in use.",
            "Give another with: autoinfer dashboard --port PORT",
        )
    access = Access() if is_loopback(host) else Access(secrets.token_urlsafe(TOKEN_BYTES))
    shown = f"[{host}]" if ":" in host else host
    suffix = f"/?token={access.token}" if access.token else ""
    return Listening(bound, f"http://{shown}:{bound.getsockname()[1]}{suffix}", access)


def _bound(host: str, port: int) -> socket.socket | None:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"{host!r} is no address: {error.strerror}.", "Give --host an address.") from None
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise UsageError(
            f"{host}:{port} can't be served on: {error.strerror}.",
            "Give --host an address of this machine and --port a number from 1024 on.",
        ) from None
    return made


def serve(app: FastAPI, listening: Listening, ready: Callable[[], None] = lambda: None) -> None:
    """Serve until the process is told to end by SIGINT or SIGTERM; `ready` is called once it answers."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=round(SHUTDOWN_S),
        server_header=False,
    )
    server = _Server(config, ready)
    server.run(sockets=[listening.socket])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()
